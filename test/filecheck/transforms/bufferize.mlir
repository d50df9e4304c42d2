// RUN: lpu-opt -p graph-to-loop,bufferize %s | filecheck %s

// Results become arguments that the caller provides, in which they are computed.
// CHECK-LABEL: func.func @results(
// CHECK-SAME: %x: memref<4xf32, "shared_dram">, %[[V0:\d+]]: memref<4xf32, "shared_dram">, %[[V1:\d+]]: memref<4xf32, "shared_dram">) {
// CHECK-NEXT:   lpu_loop.nest [d0 = 4] outs(%[[V1]] : memref<4xf32, "shared_dram">) {
// CHECK-NEXT:     %[[V2:\d+]] = lpu_loop.load %x[d0] : memref<4xf32, "shared_dram">
// CHECK-NEXT:     %[[V3:\d+]] = math.exp %[[V2]] : f32
// CHECK-NEXT:     lpu_loop.store "replace" %[[V3]], %[[V1]][d0] : f32, memref<4xf32, "shared_dram">
// CHECK-NEXT:   }
// CHECK-NEXT:   lpu_loop.nest [d0 = 4] outs(%[[V0]] : memref<4xf32, "shared_dram">) {
// CHECK-NEXT:     %[[V4:\d+]] = lpu_loop.load %[[V1]][d0] : memref<4xf32, "shared_dram">
// CHECK-NEXT:     %[[V5:\d+]] = arith.negf %[[V4]] : f32
// CHECK-NEXT:     lpu_loop.store "replace" %[[V5]], %[[V0]][d0] : f32, memref<4xf32, "shared_dram">
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return
func.func @results(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = lpu_graph.pointwise "exp"(%x) : tensor<4xf32> -> tensor<4xf32>
  %1 = lpu_graph.pointwise "neg"(%0) : tensor<4xf32> -> tensor<4xf32>
  func.return %1, %0 : tensor<4xf32>, tensor<4xf32>
}

// An argument that is returned is copied; so is a second mention of a result.
// CHECK-LABEL: func.func @aliases(
// CHECK-SAME: %x: memref<4xf32, "shared_dram">, %[[V0:\d+]]: memref<4xf32, "shared_dram">, %[[V1:\d+]]: memref<4xf32, "shared_dram">, %[[V2:\d+]]: memref<4xf32, "shared_dram">) {
// CHECK-NEXT:   lpu_loop.nest [d0 = 4] outs(%[[V1]] : memref<4xf32, "shared_dram">) {
// CHECK-NEXT:     %[[V3:\d+]] = lpu_loop.load %x[d0] : memref<4xf32, "shared_dram">
// CHECK-NEXT:     %[[V4:\d+]] = arith.negf %[[V3]] : f32
// CHECK-NEXT:     lpu_loop.store "replace" %[[V4]], %[[V1]][d0] : f32, memref<4xf32, "shared_dram">
// CHECK-NEXT:   }
// CHECK-NEXT:   lpu_loop.nest [d0 = 4] outs(%[[V0]] : memref<4xf32, "shared_dram">) {
// CHECK-NEXT:     %[[V5:\d+]] = lpu_loop.load %x[d0] : memref<4xf32, "shared_dram">
// CHECK-NEXT:     lpu_loop.store "replace" %[[V5]], %[[V0]][d0] : f32, memref<4xf32, "shared_dram">
// CHECK-NEXT:   }
// CHECK-NEXT:   lpu_loop.nest [d0 = 4] outs(%[[V2]] : memref<4xf32, "shared_dram">) {
// CHECK-NEXT:     %[[V6:\d+]] = lpu_loop.load %[[V1]][d0] : memref<4xf32, "shared_dram">
// CHECK-NEXT:     lpu_loop.store "replace" %[[V6]], %[[V2]][d0] : f32, memref<4xf32, "shared_dram">
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return
func.func @aliases(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %0 = lpu_graph.pointwise "neg"(%x) : tensor<4xf32> -> tensor<4xf32>
  func.return %x, %0, %0 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// What is only read on the way gets a buffer of its own.
// CHECK-LABEL: func.func @intermediate(
// CHECK-SAME: %x: memref<4xf32, "shared_dram">, %[[V0:\d+]]: memref<4xf32, "shared_dram">) {
// CHECK-NEXT:   %[[V1:\d+]] = lpu_host.alloc : memref<4xf32, "shared_dram">
// CHECK-NEXT:   lpu_loop.nest [d0 = 4] outs(%[[V1]] : memref<4xf32, "shared_dram">) {
// CHECK-NEXT:     %[[V2:\d+]] = lpu_loop.load %x[d0] : memref<4xf32, "shared_dram">
// CHECK-NEXT:     %[[V3:\d+]] = math.exp %[[V2]] : f32
// CHECK-NEXT:     lpu_loop.store "replace" %[[V3]], %[[V1]][d0] : f32, memref<4xf32, "shared_dram">
// CHECK-NEXT:   }
// CHECK-NEXT:   lpu_loop.nest [d0 = 4] outs(%[[V0]] : memref<4xf32, "shared_dram">) {
// CHECK-NEXT:     %[[V4:\d+]] = lpu_loop.load %[[V1]][d0] : memref<4xf32, "shared_dram">
// CHECK-NEXT:     %[[V5:\d+]] = arith.negf %[[V4]] : f32
// CHECK-NEXT:     lpu_loop.store "replace" %[[V5]], %[[V0]][d0] : f32, memref<4xf32, "shared_dram">
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return
func.func @intermediate(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = lpu_graph.pointwise "exp"(%x) : tensor<4xf32> -> tensor<4xf32>
  %1 = lpu_graph.pointwise "neg"(%0) : tensor<4xf32> -> tensor<4xf32>
  func.return %1 : tensor<4xf32>
}

// The counter is read for the index, then overwritten in its own buffer.
// CHECK-LABEL: func.func @counter(
// CHECK-SAME: %n: memref<1xi64, "shared_dram">, %t: memref<9x4xf32, "shared_dram">, %[[V0:\d+]]: memref<1x4xf32, "shared_dram">) {
// CHECK-NEXT:   %[[V1:\d+]] = lpu_host.alloc : memref<1xi64, "shared_dram">
// CHECK-NEXT:   lpu_loop.nest [] outs(%[[V1]] : memref<1xi64, "shared_dram">) {
// CHECK-NEXT:     %[[V2:\d+]] = arith.constant 1 : i64
// CHECK-NEXT:     lpu_loop.store "replace" %[[V2]], %[[V1]][0] : i64, memref<1xi64, "shared_dram">
// CHECK-NEXT:   }
// CHECK-NEXT:   lpu_loop.nest [d0 = 4] outs(%[[V0]] : memref<1x4xf32, "shared_dram">) {
// CHECK-NEXT:     %[[V3:\d+]] = lpu_loop.load %n[0] : memref<1xi64, "shared_dram">
// CHECK-NEXT:     %[[V4:\d+]] = arith.constant 0 : i64
// CHECK-NEXT:     %[[V5:\d+]] = arith.cmpi sge, %[[V3]], %[[V4]] : i64
// CHECK-NEXT:     %[[V6:\d+]] = lpu_loop.index 9 : i64
// CHECK-NEXT:     %[[V7:\d+]] = arith.cmpi slt, %[[V3]], %[[V6]] : i64
// CHECK-NEXT:     %[[V8:\d+]] = arith.andi %[[V5]], %[[V7]] : i1
// CHECK-NEXT:     lpu_loop.check %[[V8]], "IndexError", "index out of range for dimension 0 with size 9"
// CHECK-NEXT:     %[[V9:\d+]] = lpu_loop.load %t[_0, d0](%[[V3]]) : memref<9x4xf32, "shared_dram">
// CHECK-NEXT:     lpu_loop.store "replace" %[[V9]], %[[V0]][0, d0] : f32, memref<1x4xf32, "shared_dram">
// CHECK-NEXT:   }
// CHECK-NEXT:   lpu_loop.nest [] outs(%n : memref<1xi64, "shared_dram">) {
// CHECK-NEXT:     %[[V10:\d+]] = lpu_loop.load %n[0] : memref<1xi64, "shared_dram">
// CHECK-NEXT:     %[[V11:\d+]] = lpu_loop.load %[[V1]][0] : memref<1xi64, "shared_dram">
// CHECK-NEXT:     %[[V12:\d+]] = arith.addi %[[V10]], %[[V11]] : i64
// CHECK-NEXT:     lpu_loop.store "replace" %[[V12]], %n[0] : i64, memref<1xi64, "shared_dram">
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return
func.func @counter(%n: tensor<1xi64>, %t: tensor<9x4xf32>) -> tensor<1x4xf32> {
  %one = lpu_graph.full 1 : i64 : tensor<1xi64>
  %next = lpu_graph.pointwise "add"(%n, %one) : tensor<1xi64>, tensor<1xi64> -> tensor<1xi64>
  lpu_graph.write_back %next, %n : tensor<1xi64>, tensor<1xi64>
  %row = lpu_graph.gather %t[%n] dims <[0]> at 0 : tensor<9x4xf32>[tensor<1xi64>] -> tensor<1x4xf32>
  func.return %row : tensor<1x4xf32>
}

// A slot of a cache is written in place; what reads the new cache reads the same buffer.
// CHECK-LABEL: func.func @cache(
// CHECK-SAME: %c: memref<32x8xf32, "shared_dram">, %u: memref<1x8xf32, "shared_dram">, %i: memref<1xi64, "shared_dram">, %[[V0:\d+]]: memref<32x8xf32, "shared_dram">) {
// CHECK-NEXT:   lpu_loop.nest [d0 = 8] outs(%c : memref<32x8xf32, "shared_dram">) {
// CHECK-NEXT:     %[[V1:\d+]] = lpu_loop.load %i[0] : memref<1xi64, "shared_dram">
// CHECK-NEXT:     %[[V2:\d+]] = arith.constant 0 : i64
// CHECK-NEXT:     %[[V3:\d+]] = arith.cmpi sge, %[[V1]], %[[V2]] : i64
// CHECK-NEXT:     %[[V4:\d+]] = lpu_loop.index 32 : i64
// CHECK-NEXT:     %[[V5:\d+]] = arith.cmpi slt, %[[V1]], %[[V4]] : i64
// CHECK-NEXT:     %[[V6:\d+]] = arith.andi %[[V3]], %[[V5]] : i1
// CHECK-NEXT:     lpu_loop.check %[[V6]], "IndexError", "index out of range for dimension 0 with size 32"
// CHECK-NEXT:     %[[V7:\d+]] = lpu_loop.load %u[0, d0] : memref<1x8xf32, "shared_dram">
// CHECK-NEXT:     lpu_loop.store "replace" %[[V7]], %c[_0, d0](%[[V1]]) : f32, memref<32x8xf32, "shared_dram">
// CHECK-NEXT:   }
// CHECK-NEXT:   lpu_loop.nest [d0 = 32, d1 = 8] outs(%[[V0]] : memref<32x8xf32, "shared_dram">) {
// CHECK-NEXT:     %[[V8:\d+]] = lpu_loop.load %c[d0, d1] : memref<32x8xf32, "shared_dram">
// CHECK-NEXT:     %[[V9:\d+]] = arith.negf %[[V8]] : f32
// CHECK-NEXT:     lpu_loop.store "replace" %[[V9]], %[[V0]][d0, d1] : f32, memref<32x8xf32, "shared_dram">
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return
func.func @cache(%c: tensor<32x8xf32>, %u: tensor<1x8xf32>, %i: tensor<1xi64>) -> tensor<32x8xf32> {
  %0 = lpu_graph.scatter "replace" %u, %c[%i] dims <[0]> at 0 : tensor<1x8xf32>, tensor<32x8xf32>[tensor<1xi64>] -> tensor<32x8xf32>
  %1 = lpu_graph.pointwise "neg"(%0) : tensor<32x8xf32> -> tensor<32x8xf32>
  lpu_graph.write_back %0, %c : tensor<32x8xf32>, tensor<32x8xf32>
  func.return %1 : tensor<32x8xf32>
}

// The old cache is read after the write: it is not written in place, but copied back at the end.
// CHECK-LABEL: func.func @old_value_read_later(
// CHECK-SAME: %c: memref<32x8xf32, "shared_dram">, %u: memref<1x8xf32, "shared_dram">, %i: memref<1xi64, "shared_dram">, %[[V0:\d+]]: memref<32x8xf32, "shared_dram">) {
// CHECK-NEXT:   %[[V1:\d+]] = lpu_host.alloc : memref<32x8xf32, "shared_dram">
// CHECK-NEXT:   lpu_loop.nest [d0 = 32, d1 = 8] outs(%[[V1]] : memref<32x8xf32, "shared_dram">) {
// CHECK-NEXT:     %[[V2:\d+]] = lpu_loop.load %c[d0, d1] : memref<32x8xf32, "shared_dram">
// CHECK-NEXT:     lpu_loop.store "replace" %[[V2]], %[[V1]][d0, d1] : f32, memref<32x8xf32, "shared_dram">
// CHECK-NEXT:   }
// CHECK-NEXT:   lpu_loop.nest [d0 = 8] outs(%[[V1]] : memref<32x8xf32, "shared_dram">) {
// CHECK-NEXT:     %[[V3:\d+]] = lpu_loop.load %i[0] : memref<1xi64, "shared_dram">
// CHECK-NEXT:     %[[V4:\d+]] = arith.constant 0 : i64
// CHECK-NEXT:     %[[V5:\d+]] = arith.cmpi sge, %[[V3]], %[[V4]] : i64
// CHECK-NEXT:     %[[V6:\d+]] = lpu_loop.index 32 : i64
// CHECK-NEXT:     %[[V7:\d+]] = arith.cmpi slt, %[[V3]], %[[V6]] : i64
// CHECK-NEXT:     %[[V8:\d+]] = arith.andi %[[V5]], %[[V7]] : i1
// CHECK-NEXT:     lpu_loop.check %[[V8]], "IndexError", "index out of range for dimension 0 with size 32"
// CHECK-NEXT:     %[[V9:\d+]] = lpu_loop.load %u[0, d0] : memref<1x8xf32, "shared_dram">
// CHECK-NEXT:     lpu_loop.store "replace" %[[V9]], %[[V1]][_0, d0](%[[V3]]) : f32, memref<32x8xf32, "shared_dram">
// CHECK-NEXT:   }
// CHECK-NEXT:   lpu_loop.nest [d0 = 32, d1 = 8] outs(%[[V0]] : memref<32x8xf32, "shared_dram">) {
// CHECK-NEXT:     %[[V10:\d+]] = lpu_loop.load %[[V1]][d0, d1] : memref<32x8xf32, "shared_dram">
// CHECK-NEXT:     %[[V11:\d+]] = lpu_loop.load %c[d0, d1] : memref<32x8xf32, "shared_dram">
// CHECK-NEXT:     %[[V12:\d+]] = arith.subf %[[V10]], %[[V11]] : f32
// CHECK-NEXT:     lpu_loop.store "replace" %[[V12]], %[[V0]][d0, d1] : f32, memref<32x8xf32, "shared_dram">
// CHECK-NEXT:   }
// CHECK-NEXT:   lpu_loop.nest [d0 = 32, d1 = 8] outs(%c : memref<32x8xf32, "shared_dram">) {
// CHECK-NEXT:     %[[V13:\d+]] = lpu_loop.load %[[V1]][d0, d1] : memref<32x8xf32, "shared_dram">
// CHECK-NEXT:     lpu_loop.store "replace" %[[V13]], %c[d0, d1] : f32, memref<32x8xf32, "shared_dram">
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return
func.func @old_value_read_later(%c: tensor<32x8xf32>, %u: tensor<1x8xf32>, %i: tensor<1xi64>) -> tensor<32x8xf32> {
  %0 = lpu_graph.scatter "replace" %u, %c[%i] dims <[0]> at 0 : tensor<1x8xf32>, tensor<32x8xf32>[tensor<1xi64>] -> tensor<32x8xf32>
  %1 = lpu_graph.pointwise "sub"(%0, %c) : tensor<32x8xf32>, tensor<32x8xf32> -> tensor<32x8xf32>
  lpu_graph.write_back %0, %c : tensor<32x8xf32>, tensor<32x8xf32>
  func.return %1 : tensor<32x8xf32>
}

// An argument that nothing is written back to keeps its elements.
// CHECK-LABEL: func.func @argument_kept(
// CHECK-SAME: %c: memref<32x8xf32, "shared_dram">, %u: memref<1x8xf32, "shared_dram">, %i: memref<1xi64, "shared_dram">, %[[V0:\d+]]: memref<32x8xf32, "shared_dram">) {
// CHECK-NEXT:   lpu_loop.nest [d0 = 32, d1 = 8] outs(%[[V0]] : memref<32x8xf32, "shared_dram">) {
// CHECK-NEXT:     %[[V1:\d+]] = lpu_loop.load %c[d0, d1] : memref<32x8xf32, "shared_dram">
// CHECK-NEXT:     lpu_loop.store "replace" %[[V1]], %[[V0]][d0, d1] : f32, memref<32x8xf32, "shared_dram">
// CHECK-NEXT:   }
// CHECK-NEXT:   lpu_loop.nest [d0 = 8] outs(%[[V0]] : memref<32x8xf32, "shared_dram">) {
// CHECK-NEXT:     %[[V2:\d+]] = lpu_loop.load %i[0] : memref<1xi64, "shared_dram">
// CHECK-NEXT:     %[[V3:\d+]] = arith.constant 0 : i64
// CHECK-NEXT:     %[[V4:\d+]] = arith.cmpi sge, %[[V2]], %[[V3]] : i64
// CHECK-NEXT:     %[[V5:\d+]] = lpu_loop.index 32 : i64
// CHECK-NEXT:     %[[V6:\d+]] = arith.cmpi slt, %[[V2]], %[[V5]] : i64
// CHECK-NEXT:     %[[V7:\d+]] = arith.andi %[[V4]], %[[V6]] : i1
// CHECK-NEXT:     lpu_loop.check %[[V7]], "IndexError", "index out of range for dimension 0 with size 32"
// CHECK-NEXT:     %[[V8:\d+]] = lpu_loop.load %u[0, d0] : memref<1x8xf32, "shared_dram">
// CHECK-NEXT:     lpu_loop.store "replace" %[[V8]], %[[V0]][_0, d0](%[[V2]]) : f32, memref<32x8xf32, "shared_dram">
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return
func.func @argument_kept(%c: tensor<32x8xf32>, %u: tensor<1x8xf32>, %i: tensor<1xi64>) -> tensor<32x8xf32> {
  %0 = lpu_graph.scatter "replace" %u, %c[%i] dims <[0]> at 0 : tensor<1x8xf32>, tensor<32x8xf32>[tensor<1xi64>] -> tensor<32x8xf32>
  func.return %0 : tensor<32x8xf32>
}

// Each element depends on the one across: it cannot overwrite its operand on the way.
// CHECK-LABEL: func.func @across(
// CHECK-NEXT:   %[[V0:\d+]] = lpu_host.alloc : memref<4x4xf32, "shared_dram">
// CHECK-NEXT:   lpu_loop.nest [d0 = 4, d1 = 4] outs(%[[V0]] : memref<4x4xf32, "shared_dram">) {
// CHECK-NEXT:     %[[V1:\d+]] = lpu_loop.load %x[d0, d1] : memref<4x4xf32, "shared_dram">
// CHECK-NEXT:     %[[V2:\d+]] = lpu_loop.load %x[d1, d0] : memref<4x4xf32, "shared_dram">
// CHECK-NEXT:     %[[V3:\d+]] = arith.addf %[[V1]], %[[V2]] : f32
// CHECK-NEXT:     lpu_loop.store "replace" %[[V3]], %[[V0]][d0, d1] : f32, memref<4x4xf32, "shared_dram">
// CHECK-NEXT:   }
// CHECK-NEXT:   lpu_loop.nest [d0 = 4, d1 = 4] outs(%x : memref<4x4xf32, "shared_dram">) {
// CHECK-NEXT:     %[[V4:\d+]] = lpu_loop.load %[[V0]][d0, d1] : memref<4x4xf32, "shared_dram">
// CHECK-NEXT:     lpu_loop.store "replace" %[[V4]], %x[d0, d1] : f32, memref<4x4xf32, "shared_dram">
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return
func.func @across(%x: tensor<4x4xf32>) {
  %0 = lpu_graph.transpose %x <[1, 0]> : tensor<4x4xf32> -> tensor<4x4xf32>
  %1 = lpu_graph.pointwise "add"(%x, %0) : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  lpu_graph.write_back %1, %x : tensor<4x4xf32>, tensor<4x4xf32>
  func.return
}

// In step with its operand it can.
// CHECK-LABEL: func.func @in_step(
// CHECK-NEXT:   lpu_loop.nest [d0 = 4, d1 = 4] outs(%x : memref<4x4xf32, "shared_dram">) {
// CHECK-NEXT:     %[[V0:\d+]] = lpu_loop.load %x[d0, d1] : memref<4x4xf32, "shared_dram">
// CHECK-NEXT:     %[[V1:\d+]] = lpu_loop.load %y[d0, d1] : memref<4x4xf32, "shared_dram">
// CHECK-NEXT:     %[[V2:\d+]] = arith.addf %[[V0]], %[[V1]] : f32
// CHECK-NEXT:     lpu_loop.store "replace" %[[V2]], %x[d0, d1] : f32, memref<4x4xf32, "shared_dram">
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return
func.func @in_step(%x: tensor<4x4xf32>, %y: tensor<4x4xf32>) {
  %1 = lpu_graph.pointwise "add"(%x, %y) : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  lpu_graph.write_back %1, %x : tensor<4x4xf32>, tensor<4x4xf32>
  func.return
}

// Both arguments are read before either is overwritten.
// CHECK-LABEL: func.func @swap(
// CHECK-NEXT:   %[[V0:\d+]] = lpu_host.alloc : memref<4xf32, "shared_dram">
// CHECK-NEXT:   lpu_loop.nest [d0 = 4] outs(%[[V0]] : memref<4xf32, "shared_dram">) {
// CHECK-NEXT:     %[[V1:\d+]] = lpu_loop.load %a[d0] : memref<4xf32, "shared_dram">
// CHECK-NEXT:     lpu_loop.store "replace" %[[V1]], %[[V0]][d0] : f32, memref<4xf32, "shared_dram">
// CHECK-NEXT:   }
// CHECK-NEXT:   %[[V2:\d+]] = lpu_host.alloc : memref<4xf32, "shared_dram">
// CHECK-NEXT:   lpu_loop.nest [d0 = 4] outs(%[[V2]] : memref<4xf32, "shared_dram">) {
// CHECK-NEXT:     %[[V3:\d+]] = lpu_loop.load %b[d0] : memref<4xf32, "shared_dram">
// CHECK-NEXT:     lpu_loop.store "replace" %[[V3]], %[[V2]][d0] : f32, memref<4xf32, "shared_dram">
// CHECK-NEXT:   }
// CHECK-NEXT:   lpu_loop.nest [d0 = 4] outs(%b : memref<4xf32, "shared_dram">) {
// CHECK-NEXT:     %[[V4:\d+]] = lpu_loop.load %[[V0]][d0] : memref<4xf32, "shared_dram">
// CHECK-NEXT:     lpu_loop.store "replace" %[[V4]], %b[d0] : f32, memref<4xf32, "shared_dram">
// CHECK-NEXT:   }
// CHECK-NEXT:   lpu_loop.nest [d0 = 4] outs(%a : memref<4xf32, "shared_dram">) {
// CHECK-NEXT:     %[[V5:\d+]] = lpu_loop.load %[[V2]][d0] : memref<4xf32, "shared_dram">
// CHECK-NEXT:     lpu_loop.store "replace" %[[V5]], %a[d0] : f32, memref<4xf32, "shared_dram">
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return
func.func @swap(%a: tensor<4xf32>, %b: tensor<4xf32>) {
  lpu_graph.write_back %a, %b : tensor<4xf32>, tensor<4xf32>
  lpu_graph.write_back %b, %a : tensor<4xf32>, tensor<4xf32>
  func.return
}

// A chain of stores into one fresh tensor needs one buffer.
// CHECK-LABEL: func.func @chain(
// CHECK-SAME: %x: memref<8x4xf32, "shared_dram">, %u: memref<2x4xf32, "shared_dram">, %i: memref<2xi64, "shared_dram">, %[[V0:\d+]]: memref<8x4xf32, "shared_dram">) {
// CHECK-NEXT:   lpu_loop.nest [d0 = 8, d1 = 4] outs(%[[V0]] : memref<8x4xf32, "shared_dram">) {
// CHECK-NEXT:     %[[V1:\d+]] = lpu_loop.load %x[d0, d1] : memref<8x4xf32, "shared_dram">
// CHECK-NEXT:     %[[V2:\d+]] = arith.negf %[[V1]] : f32
// CHECK-NEXT:     lpu_loop.store "replace" %[[V2]], %[[V0]][d0, d1] : f32, memref<8x4xf32, "shared_dram">
// CHECK-NEXT:   }
// CHECK-NEXT:   lpu_loop.nest [d0 = 2, d1 = 4] outs(%[[V0]] : memref<8x4xf32, "shared_dram">) {
// CHECK-NEXT:     %[[V3:\d+]] = lpu_loop.load %i[d0] : memref<2xi64, "shared_dram">
// CHECK-NEXT:     %[[V4:\d+]] = arith.constant 0 : i64
// CHECK-NEXT:     %[[V5:\d+]] = arith.cmpi sge, %[[V3]], %[[V4]] : i64
// CHECK-NEXT:     %[[V6:\d+]] = lpu_loop.index 8 : i64
// CHECK-NEXT:     %[[V7:\d+]] = arith.cmpi slt, %[[V3]], %[[V6]] : i64
// CHECK-NEXT:     %[[V8:\d+]] = arith.andi %[[V5]], %[[V7]] : i1
// CHECK-NEXT:     lpu_loop.check %[[V8]], "IndexError", "index out of range for dimension 0 with size 8"
// CHECK-NEXT:     %[[V9:\d+]] = lpu_loop.load %u[d0, d1] : memref<2x4xf32, "shared_dram">
// CHECK-NEXT:     lpu_loop.store "replace" %[[V9]], %[[V0]][_0, d1](%[[V3]]) : f32, memref<8x4xf32, "shared_dram">
// CHECK-NEXT:   }
// CHECK-NEXT:   lpu_loop.nest [d0 = 2, d1 = 4] outs(%[[V0]] : memref<8x4xf32, "shared_dram">) {
// CHECK-NEXT:     %[[V10:\d+]] = lpu_loop.load %i[d0] : memref<2xi64, "shared_dram">
// CHECK-NEXT:     %[[V11:\d+]] = arith.constant 0 : i64
// CHECK-NEXT:     %[[V12:\d+]] = arith.cmpi sge, %[[V10]], %[[V11]] : i64
// CHECK-NEXT:     %[[V13:\d+]] = lpu_loop.index 8 : i64
// CHECK-NEXT:     %[[V14:\d+]] = arith.cmpi slt, %[[V10]], %[[V13]] : i64
// CHECK-NEXT:     %[[V15:\d+]] = arith.andi %[[V12]], %[[V14]] : i1
// CHECK-NEXT:     lpu_loop.check %[[V15]], "IndexError", "index out of range for dimension 0 with size 8"
// CHECK-NEXT:     %[[V16:\d+]] = lpu_loop.load %u[d0, d1] : memref<2x4xf32, "shared_dram">
// CHECK-NEXT:     lpu_loop.store "add" %[[V16]], %[[V0]][_0, d1](%[[V10]]) : f32, memref<8x4xf32, "shared_dram">
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return
func.func @chain(%x: tensor<8x4xf32>, %u: tensor<2x4xf32>, %i: tensor<2xi64>) -> tensor<8x4xf32> {
  %0 = lpu_graph.pointwise "neg"(%x) : tensor<8x4xf32> -> tensor<8x4xf32>
  %1 = lpu_graph.scatter "replace" %u, %0[%i] dims <[0]> at 0 : tensor<2x4xf32>, tensor<8x4xf32>[tensor<2xi64>] -> tensor<8x4xf32>
  %2 = lpu_graph.scatter "add" %u, %1[%i] dims <[0]> at 0 : tensor<2x4xf32>, tensor<8x4xf32>[tensor<2xi64>] -> tensor<8x4xf32>
  func.return %2 : tensor<8x4xf32>
}

// Two tensors made from one: the second store needs the elements as they were.
// CHECK-LABEL: func.func @fork(
// CHECK-SAME: %x: memref<8x4xf32, "shared_dram">, %u: memref<2x4xf32, "shared_dram">, %i: memref<2xi64, "shared_dram">, %[[V0:\d+]]: memref<8x4xf32, "shared_dram">, %[[V1:\d+]]: memref<8x4xf32, "shared_dram">) {
// CHECK-NEXT:   lpu_loop.nest [d0 = 8, d1 = 4] outs(%[[V1]] : memref<8x4xf32, "shared_dram">) {
// CHECK-NEXT:     %[[V2:\d+]] = lpu_loop.load %x[d0, d1] : memref<8x4xf32, "shared_dram">
// CHECK-NEXT:     %[[V3:\d+]] = arith.negf %[[V2]] : f32
// CHECK-NEXT:     lpu_loop.store "replace" %[[V3]], %[[V1]][d0, d1] : f32, memref<8x4xf32, "shared_dram">
// CHECK-NEXT:   }
// CHECK-NEXT:   lpu_loop.nest [d0 = 8, d1 = 4] outs(%[[V0]] : memref<8x4xf32, "shared_dram">) {
// CHECK-NEXT:     %[[V4:\d+]] = lpu_loop.load %[[V1]][d0, d1] : memref<8x4xf32, "shared_dram">
// CHECK-NEXT:     lpu_loop.store "replace" %[[V4]], %[[V0]][d0, d1] : f32, memref<8x4xf32, "shared_dram">
// CHECK-NEXT:   }
// CHECK-NEXT:   lpu_loop.nest [d0 = 2, d1 = 4] outs(%[[V0]] : memref<8x4xf32, "shared_dram">) {
// CHECK-NEXT:     %[[V5:\d+]] = lpu_loop.load %i[d0] : memref<2xi64, "shared_dram">
// CHECK-NEXT:     %[[V6:\d+]] = arith.constant 0 : i64
// CHECK-NEXT:     %[[V7:\d+]] = arith.cmpi sge, %[[V5]], %[[V6]] : i64
// CHECK-NEXT:     %[[V8:\d+]] = lpu_loop.index 8 : i64
// CHECK-NEXT:     %[[V9:\d+]] = arith.cmpi slt, %[[V5]], %[[V8]] : i64
// CHECK-NEXT:     %[[V10:\d+]] = arith.andi %[[V7]], %[[V9]] : i1
// CHECK-NEXT:     lpu_loop.check %[[V10]], "IndexError", "index out of range for dimension 0 with size 8"
// CHECK-NEXT:     %[[V11:\d+]] = lpu_loop.load %u[d0, d1] : memref<2x4xf32, "shared_dram">
// CHECK-NEXT:     lpu_loop.store "replace" %[[V11]], %[[V0]][_0, d1](%[[V5]]) : f32, memref<8x4xf32, "shared_dram">
// CHECK-NEXT:   }
// CHECK-NEXT:   lpu_loop.nest [d0 = 2, d1 = 4] outs(%[[V1]] : memref<8x4xf32, "shared_dram">) {
// CHECK-NEXT:     %[[V12:\d+]] = lpu_loop.load %i[d0] : memref<2xi64, "shared_dram">
// CHECK-NEXT:     %[[V13:\d+]] = arith.constant 0 : i64
// CHECK-NEXT:     %[[V14:\d+]] = arith.cmpi sge, %[[V12]], %[[V13]] : i64
// CHECK-NEXT:     %[[V15:\d+]] = lpu_loop.index 8 : i64
// CHECK-NEXT:     %[[V16:\d+]] = arith.cmpi slt, %[[V12]], %[[V15]] : i64
// CHECK-NEXT:     %[[V17:\d+]] = arith.andi %[[V14]], %[[V16]] : i1
// CHECK-NEXT:     lpu_loop.check %[[V17]], "IndexError", "index out of range for dimension 0 with size 8"
// CHECK-NEXT:     %[[V18:\d+]] = lpu_loop.load %u[d0, d1] : memref<2x4xf32, "shared_dram">
// CHECK-NEXT:     lpu_loop.store "add" %[[V18]], %[[V1]][_0, d1](%[[V12]]) : f32, memref<8x4xf32, "shared_dram">
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return
func.func @fork(%x: tensor<8x4xf32>, %u: tensor<2x4xf32>, %i: tensor<2xi64>) -> (tensor<8x4xf32>, tensor<8x4xf32>) {
  %0 = lpu_graph.pointwise "neg"(%x) : tensor<8x4xf32> -> tensor<8x4xf32>
  %1 = lpu_graph.scatter "replace" %u, %0[%i] dims <[0]> at 0 : tensor<2x4xf32>, tensor<8x4xf32>[tensor<2xi64>] -> tensor<8x4xf32>
  %2 = lpu_graph.scatter "add" %u, %0[%i] dims <[0]> at 0 : tensor<2x4xf32>, tensor<8x4xf32>[tensor<2xi64>] -> tensor<8x4xf32>
  func.return %1, %2 : tensor<8x4xf32>, tensor<8x4xf32>
}

// Strides of arguments and results are those that the attributes say.
// CHECK-LABEL: func.func @strides(
// CHECK-SAME: %x: memref<?x4xf32, #lpu.layout<[s0, 4], [1, s0], 0>, "shared_dram">, %[[V0:\d+]]: memref<?x4xf32, #lpu.layout<[s0, 4], [8, 2], 0>, "shared_dram">) attributes {lpu.symbols = [#lpu.symbol<"s0", 1, 64, 8>]} {
// CHECK-NEXT:   lpu_loop.nest [d0 = s0, d1 = 4] outs(%[[V0]] : memref<?x4xf32, #lpu.layout<[s0, 4], [8, 2], 0>, "shared_dram">) {
// CHECK-NEXT:     %[[V1:\d+]] = lpu_loop.load %x[d0, d1] : memref<?x4xf32, #lpu.layout<[s0, 4], [1, s0], 0>, "shared_dram">
// CHECK-NEXT:     %[[V2:\d+]] = arith.negf %[[V1]] : f32
// CHECK-NEXT:     lpu_loop.store "replace" %[[V2]], %[[V0]][d0, d1] : f32, memref<?x4xf32, #lpu.layout<[s0, 4], [8, 2], 0>, "shared_dram">
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return
func.func @strides(%x: tensor<?x4xf32, #lpu.shape<[s0, 4]>> {lpu.strides = #lpu.shape<[1, s0]>}) -> (tensor<?x4xf32, #lpu.shape<[s0, 4]>> {lpu.strides = #lpu.shape<[8, 2]>}) attributes {lpu.symbols = [#lpu.symbol<"s0", 1, 64, 8>]} {
  %0 = lpu_graph.pointwise "neg"(%x) : tensor<?x4xf32, #lpu.shape<[s0, 4]>> -> tensor<?x4xf32, #lpu.shape<[s0, 4]>>
  func.return %0 : tensor<?x4xf32, #lpu.shape<[s0, 4]>>
}

// CHECK-LABEL: func.func @empty(
// CHECK-SAME: %x: memref<0x4xf32, "shared_dram">, %[[V0:\d+]]: memref<0x4xf32, "shared_dram">) {
// CHECK-NEXT:   lpu_loop.nest [d0 = 0, d1 = 4] outs(%[[V0]] : memref<0x4xf32, "shared_dram">) {
// CHECK-NEXT:     %[[V1:\d+]] = lpu_loop.load %x[d0, d1] : memref<0x4xf32, "shared_dram">
// CHECK-NEXT:     %[[V2:\d+]] = arith.negf %[[V1]] : f32
// CHECK-NEXT:     lpu_loop.store "replace" %[[V2]], %[[V0]][d0, d1] : f32, memref<0x4xf32, "shared_dram">
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return
func.func @empty(%x: tensor<0x4xf32>) -> tensor<0x4xf32> {
  %0 = lpu_graph.pointwise "neg"(%x) : tensor<0x4xf32> -> tensor<0x4xf32>
  func.return %0 : tensor<0x4xf32>
}

// A value that another argument is to hold in the end is not overwritten before.
// CHECK-LABEL: func.func @changing_places(
// CHECK-NEXT:   %[[T:\d+]] = lpu_host.alloc : memref<4xf32, "shared_dram">
// CHECK-NEXT:   lpu_loop.nest [d0 = 4] outs(%[[T]] : memref<4xf32, "shared_dram">) {
// CHECK-NEXT:     %{{\d+}} = lpu_loop.load %a[d0]
// CHECK-NEXT:     %{{\d+}} = lpu_loop.load %b[d0]
// CHECK:        }
// CHECK-NEXT:   %[[B:\d+]] = lpu_host.alloc : memref<4xf32, "shared_dram">
// CHECK-NEXT:   lpu_loop.nest [d0 = 4] outs(%[[B]] : memref<4xf32, "shared_dram">) {
// CHECK-NEXT:     %{{\d+}} = lpu_loop.load %b[d0]
// CHECK:        lpu_loop.nest [d0 = 4] outs(%a : memref<4xf32, "shared_dram">) {
// CHECK-NEXT:     %{{\d+}} = lpu_loop.load %[[B]][d0]
// CHECK:        lpu_loop.nest [d0 = 4] outs(%b : memref<4xf32, "shared_dram">) {
// CHECK-NEXT:     %{{\d+}} = lpu_loop.load %[[T]][d0]
func.func @changing_places(%a: tensor<4xf32>, %b: tensor<4xf32>) {
  %0 = lpu_graph.pointwise "add"(%a, %b) : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  lpu_graph.write_back %b, %a : tensor<4xf32>, tensor<4xf32>
  lpu_graph.write_back %0, %b : tensor<4xf32>, tensor<4xf32>
  func.return
}

// A call does not get its argument's buffer for its result: it may read elements after it wrote others.
// CHECK-LABEL: func.func @called_with_what_it_replaces(
// CHECK-NEXT:   %[[R:\d+]] = lpu_host.alloc : memref<4xf32, "shared_dram">
// CHECK-NEXT:   func.call @reversed(%a, %[[R]])
// CHECK-NEXT:   lpu_loop.nest [d0 = 4] outs(%a : memref<4xf32, "shared_dram">) {
// CHECK-NEXT:     %{{\d+}} = lpu_loop.load %[[R]][d0]
func.func @called_with_what_it_replaces(%a: tensor<4xf32>) {
  %0 = func.call @reversed(%a) : (tensor<4xf32>) -> tensor<4xf32>
  lpu_graph.write_back %0, %a : tensor<4xf32>, tensor<4xf32>
  func.return
}
func.func @reversed(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = lpu_graph.slice %a starts <[3]> steps <[-1]> : tensor<4xf32> -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}

// An argument changes only when nothing can fail any more: what is written to it as a whole before
// a call outside goes to memory of its own first, also where a function writes it.
// CHECK-LABEL: func.func @before_a_call(
// CHECK-SAME:    %n: memref<4xf32, "shared_dram">, %m: memref<4xf32, "shared_dram">)
// CHECK-NEXT:    %[[M:\S+]] = lpu_host.alloc
// CHECK-NEXT:    lpu_loop.nest [d0 = 4] outs(%[[M]] : memref<4xf32, "shared_dram">) {
// CHECK-NEXT:      lpu_loop.load %m[d0]
// CHECK:         func.call @adds(%[[M]]) : (memref<4xf32, "shared_dram">) -> ()
// CHECK-NEXT:    %[[N:\S+]] = lpu_host.alloc
// CHECK-NEXT:    lpu_loop.nest [d0 = 4] outs(%[[N]] : memref<4xf32, "shared_dram">) {
// CHECK-NEXT:      %[[V:\S+]] = lpu_loop.load %n[d0]
// CHECK-NEXT:      math.exp %[[V]] : f32
// CHECK:         "lpu.host_call"(%[[N]])
// CHECK:         lpu_loop.nest [d0 = 4] outs(%n : memref<4xf32, "shared_dram">) {
// CHECK-NEXT:      lpu_loop.load %[[N]][d0]
// CHECK:         lpu_loop.nest [d0 = 4] outs(%m : memref<4xf32, "shared_dram">) {
// CHECK-NEXT:      lpu_loop.load %[[M]][d0]
func.func @before_a_call(%n: tensor<4xf32>, %m: tensor<4xf32>) -> tensor<4xf32> {
  func.call @adds(%m) : (tensor<4xf32>) -> ()
  %0 = lpu_graph.pointwise "exp"(%n) : tensor<4xf32> -> tensor<4xf32>
  %1 = "lpu.host_call"(%0) <{overload = "aten.abs.default", arguments = {"0" = #lpu.operand<0>}, reason = "a test"}> : (tensor<4xf32>) -> tensor<4xf32>
  lpu_graph.write_back %0, %n : tensor<4xf32>, tensor<4xf32>
  func.return %1 : tensor<4xf32>
}
func.func private @adds(%m: tensor<4xf32>) {
  %0 = lpu_graph.pointwise "neg"(%m) : tensor<4xf32> -> tensor<4xf32>
  lpu_graph.write_back %0, %m : tensor<4xf32>, tensor<4xf32>
  func.return
}

// A slice is stored where it is.
// CHECK-LABEL: func.func @slice_before_a_call(
// CHECK-NEXT:    lpu_loop.nest [] outs(%cache : memref<8xf32, "shared_dram">) {
// CHECK:         "lpu.host_call"(%cache)
// CHECK-NEXT:    func.return
func.func @slice_before_a_call(%cache: tensor<8xf32>, %v: tensor<f32>, %p: tensor<i64>) -> tensor<8xf32> {
  %0 = lpu_graph.scatter "replace" %v, %cache[%p] dims <[0]> at 0 : tensor<f32>, tensor<8xf32>[tensor<i64>] -> tensor<8xf32>
  %1 = "lpu.host_call"(%0) <{overload = "aten.abs.default", arguments = {"0" = #lpu.operand<0>}, reason = "a test"}> : (tensor<8xf32>) -> tensor<8xf32>
  lpu_graph.write_back %0, %cache : tensor<8xf32>, tensor<8xf32>
  func.return %1 : tensor<8xf32>
}
