// RUN: lpu-opt -p graph-to-loop,bufferize %s | filecheck %s
// RUN: lpu-opt -p graph-to-loop,bufferize %s | lpu-opt | filecheck %s

// Branches are given the buffers of their results. A loop changes buffers of its own, into which the
// first values are copied; its body writes the next values in place.
// CHECK: func.func @main(%p: memref<i1, "shared_dram">, %x: memref<4xf32, "shared_dram">, %n: memref<i64, "shared_dram">, %0: memref<4xf32, "shared_dram">, %1: memref<4xf32, "shared_dram">) {
// CHECK-NEXT: lpu.if %p then @then else @else(%x, %0) : memref<i1, "shared_dram">, (memref<4xf32, "shared_dram">, memref<4xf32, "shared_dram">) -> ()
// CHECK-NEXT: %2 = lpu_host.alloc : memref<i64, "shared_dram">
// CHECK-NEXT: lpu_loop.nest [] outs(%2 : memref<i64, "shared_dram">) {
// CHECK-NEXT: %3 = lpu_loop.load %n[] : memref<i64, "shared_dram">
// CHECK-NEXT: lpu_loop.store "replace" %3, %2[] : i64, memref<i64, "shared_dram">
// CHECK-NEXT: }
// CHECK-NEXT: lpu_loop.nest [d0 = 4] outs(%1 : memref<4xf32, "shared_dram">) {
// CHECK-NEXT: %4 = lpu_loop.load %0[d0] : memref<4xf32, "shared_dram">
// CHECK-NEXT: lpu_loop.store "replace" %4, %1[d0] : f32, memref<4xf32, "shared_dram">
// CHECK-NEXT: }
// CHECK-NEXT: %5 = lpu_host.alloc : memref<i1, "shared_dram">
// CHECK-NEXT: lpu.while @condition do @body(%2, %1) (%x) into %5 : memref<i1, "shared_dram"> : (memref<i64, "shared_dram">, memref<4xf32, "shared_dram">), (memref<4xf32, "shared_dram">) -> ()
// CHECK-NEXT: func.return
// CHECK-NEXT: }
// CHECK-NEXT: func.func @then(%x: memref<4xf32, "shared_dram">, %0: memref<4xf32, "shared_dram">) {
// CHECK-NEXT: lpu_loop.nest [d0 = 4] outs(%0 : memref<4xf32, "shared_dram">) {
// CHECK-NEXT: %1 = lpu_loop.load %x[d0] : memref<4xf32, "shared_dram">
// CHECK-NEXT: %2 = arith.negf %1 : f32
// CHECK-NEXT: lpu_loop.store "replace" %2, %0[d0] : f32, memref<4xf32, "shared_dram">
// CHECK-NEXT: }
// CHECK-NEXT: func.return
// CHECK-NEXT: }
// CHECK-NEXT: func.func @else(%x: memref<4xf32, "shared_dram">, %0: memref<4xf32, "shared_dram">) {
// CHECK-NEXT: lpu_loop.nest [d0 = 4] outs(%0 : memref<4xf32, "shared_dram">) {
// CHECK-NEXT: %1 = lpu_loop.load %x[d0] : memref<4xf32, "shared_dram">
// CHECK-NEXT: %2 = math.exp %1 : f32
// CHECK-NEXT: lpu_loop.store "replace" %2, %0[d0] : f32, memref<4xf32, "shared_dram">
// CHECK-NEXT: }
// CHECK-NEXT: func.return
// CHECK-NEXT: }
// CHECK-NEXT: func.func @condition(%n: memref<i64, "shared_dram">, %s: memref<4xf32, "shared_dram">, %x: memref<4xf32, "shared_dram">, %0: memref<i1, "shared_dram">) {
// CHECK-NEXT: %1 = lpu_host.alloc : memref<i64, "shared_dram">
// CHECK-NEXT: lpu_loop.nest [] outs(%1 : memref<i64, "shared_dram">) {
// CHECK-NEXT: %2 = arith.constant 0 : i64
// CHECK-NEXT: lpu_loop.store "replace" %2, %1[] : i64, memref<i64, "shared_dram">
// CHECK-NEXT: }
// CHECK-NEXT: lpu_loop.nest [] outs(%0 : memref<i1, "shared_dram">) {
// CHECK-NEXT: %3 = lpu_loop.load %n[] : memref<i64, "shared_dram">
// CHECK-NEXT: %4 = lpu_loop.load %1[] : memref<i64, "shared_dram">
// CHECK-NEXT: %5 = arith.cmpi sgt, %3, %4 : i64
// CHECK-NEXT: lpu_loop.store "replace" %5, %0[] : i1, memref<i1, "shared_dram">
// CHECK-NEXT: }
// CHECK-NEXT: func.return
// CHECK-NEXT: }
// CHECK-NEXT: func.func @body(%n: memref<i64, "shared_dram">, %s: memref<4xf32, "shared_dram">, %x: memref<4xf32, "shared_dram">) {
// CHECK-NEXT: %0 = lpu_host.alloc : memref<i64, "shared_dram">
// CHECK-NEXT: lpu_loop.nest [] outs(%0 : memref<i64, "shared_dram">) {
// CHECK-NEXT: %1 = arith.constant -1 : i64
// CHECK-NEXT: lpu_loop.store "replace" %1, %0[] : i64, memref<i64, "shared_dram">
// CHECK-NEXT: }
// CHECK-NEXT: lpu_loop.nest [] outs(%n : memref<i64, "shared_dram">) {
// CHECK-NEXT: %2 = lpu_loop.load %n[] : memref<i64, "shared_dram">
// CHECK-NEXT: %3 = lpu_loop.load %0[] : memref<i64, "shared_dram">
// CHECK-NEXT: %4 = arith.addi %2, %3 : i64
// CHECK-NEXT: lpu_loop.store "replace" %4, %n[] : i64, memref<i64, "shared_dram">
// CHECK-NEXT: }
// CHECK-NEXT: lpu_loop.nest [d0 = 4] outs(%s : memref<4xf32, "shared_dram">) {
// CHECK-NEXT: %5 = lpu_loop.load %s[d0] : memref<4xf32, "shared_dram">
// CHECK-NEXT: %6 = lpu_loop.load %x[d0] : memref<4xf32, "shared_dram">
// CHECK-NEXT: %7 = arith.addf %5, %6 : f32
// CHECK-NEXT: lpu_loop.store "replace" %7, %s[d0] : f32, memref<4xf32, "shared_dram">
// CHECK-NEXT: }
// CHECK-NEXT: func.return
// CHECK-NEXT: }
func.func @main(%p: tensor<i1>, %x: tensor<4xf32>, %n: tensor<i64>) -> (tensor<4xf32>, tensor<4xf32>) {
  %r = lpu.if %p then @then else @else(%x) : tensor<i1>, (tensor<4xf32>) -> (tensor<4xf32>)
  %m, %s = lpu.while @condition do @body(%n, %r)(%x) : (tensor<i64>, tensor<4xf32>), (tensor<4xf32>) -> (tensor<i64>, tensor<4xf32>)
  func.return %r, %s : tensor<4xf32>, tensor<4xf32>
}
func.func @then(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = lpu_graph.pointwise "neg"(%x) : tensor<4xf32> -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
func.func @else(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = lpu_graph.pointwise "exp"(%x) : tensor<4xf32> -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
func.func @condition(%n: tensor<i64>, %s: tensor<4xf32>, %x: tensor<4xf32>) -> tensor<i1> {
  %0 = lpu_graph.full 0 : i64 : tensor<i64>
  %1 = lpu_graph.pointwise "gt"(%n, %0) : tensor<i64>, tensor<i64> -> tensor<i1>
  func.return %1 : tensor<i1>
}
func.func @body(%n: tensor<i64>, %s: tensor<4xf32>, %x: tensor<4xf32>) {
  %0 = lpu_graph.full -1 : i64 : tensor<i64>
  %1 = lpu_graph.pointwise "add"(%n, %0) : tensor<i64>, tensor<i64> -> tensor<i64>
  %2 = lpu_graph.pointwise "add"(%s, %x) : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  lpu_graph.write_back %1, %n : tensor<i64>, tensor<i64>
  lpu_graph.write_back %2, %s : tensor<4xf32>, tensor<4xf32>
  func.return
}
