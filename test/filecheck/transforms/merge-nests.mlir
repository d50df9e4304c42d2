// RUN: lpu-opt -p graph-to-loop,fuse,dce,merge-nests %s | filecheck %s

// Three products of one normalised operand: the norm is there once, each product has dims of its own.
// CHECK-LABEL: func.func @siblings(
// CHECK-NEXT:   %[[V0:\d+]] = lpu_loop.empty : tensor<3x40xf32>
// CHECK-NEXT:   %[[V1:\d+]] = lpu_loop.empty : tensor<3x8xf32>
// CHECK-NEXT:   %[[V2:\d+]] = lpu_loop.empty : tensor<3x8xf32>
// CHECK-NEXT:   %[[V3:\d+]], %[[V4:\d+]], %[[V5:\d+]] = lpu_loop.nest [d0 = 3] outs(%[[V0]], %[[V1]], %[[V2]] : tensor<3x40xf32>, tensor<3x8xf32>, tensor<3x8xf32>) {
// CHECK-NEXT:     %[[V6:\d+]] = lpu_loop.fold "add" [r0 = 16] : f32 {
// CHECK-NEXT:       %[[V7:\d+]] = lpu_loop.load %x[d0, r0] : tensor<3x16xf32>
// CHECK-NEXT:       %[[V8:\d+]] = arith.mulf %[[V7]], %[[V7]] : f32
// CHECK-NEXT:       lpu_loop.yield %[[V8]] : f32
// CHECK-NEXT:     }
// CHECK-NEXT:     %[[V9:\d+]] = math.rsqrt %[[V6]] : f32
// CHECK-NEXT:     lpu_loop.over [d1 = 40] {
// CHECK-NEXT:       %[[V10:\d+]] = lpu_loop.fold "add" [r1 = 16] : f32 {
// CHECK-NEXT:         %[[V11:\d+]] = lpu_loop.load %x[d0, r1] : tensor<3x16xf32>
// CHECK-NEXT:         %[[V12:\d+]] = arith.mulf %[[V11]], %[[V9]] : f32
// CHECK-NEXT:         %[[V13:\d+]] = lpu_loop.load %q[d1, r1] : tensor<40x16xf32>
// CHECK-NEXT:         %[[V14:\d+]] = arith.mulf %[[V12]], %[[V13]] : f32
// CHECK-NEXT:         lpu_loop.yield %[[V14]] : f32
// CHECK-NEXT:       }
// CHECK-NEXT:       lpu_loop.store "replace" %[[V10]], %[[V0]][d0, d1] : f32, tensor<3x40xf32>
// CHECK-NEXT:     }
// CHECK-NEXT:     lpu_loop.over [d2 = 8] {
// CHECK-NEXT:       %[[V15:\d+]] = lpu_loop.fold "add" [r1 = 16] : f32 {
// CHECK-NEXT:         %[[V16:\d+]] = lpu_loop.load %x[d0, r1] : tensor<3x16xf32>
// CHECK-NEXT:         %[[V17:\d+]] = arith.mulf %[[V16]], %[[V9]] : f32
// CHECK-NEXT:         %[[V18:\d+]] = lpu_loop.load %k[d2, r1] : tensor<8x16xf32>
// CHECK-NEXT:         %[[V19:\d+]] = arith.mulf %[[V17]], %[[V18]] : f32
// CHECK-NEXT:         lpu_loop.yield %[[V19]] : f32
// CHECK-NEXT:       }
// CHECK-NEXT:       lpu_loop.store "replace" %[[V15]], %[[V1]][d0, d2] : f32, tensor<3x8xf32>
// CHECK-NEXT:     }
// CHECK-NEXT:     lpu_loop.over [d3 = 8] {
// CHECK-NEXT:       %[[V20:\d+]] = lpu_loop.fold "add" [r1 = 16] : f32 {
// CHECK-NEXT:         %[[V21:\d+]] = lpu_loop.load %x[d0, r1] : tensor<3x16xf32>
// CHECK-NEXT:         %[[V22:\d+]] = arith.mulf %[[V21]], %[[V9]] : f32
// CHECK-NEXT:         %[[V23:\d+]] = lpu_loop.load %v[d3, r1] : tensor<8x16xf32>
// CHECK-NEXT:         %[[V24:\d+]] = arith.mulf %[[V22]], %[[V23]] : f32
// CHECK-NEXT:         lpu_loop.yield %[[V24]] : f32
// CHECK-NEXT:       }
// CHECK-NEXT:       lpu_loop.store "replace" %[[V20]], %[[V2]][d0, d3] : f32, tensor<3x8xf32>
// CHECK-NEXT:     }
// CHECK-NEXT:   } -> tensor<3x40xf32>, tensor<3x8xf32>, tensor<3x8xf32>
func.func @siblings(%x: tensor<3x16xf32>, %q: tensor<40x16xf32>, %k: tensor<8x16xf32>, %v: tensor<8x16xf32>) -> (tensor<3x40xf32>, tensor<3x8xf32>, tensor<3x8xf32>) {
  %0 = lpu_graph.pointwise "mul"(%x, %x) : tensor<3x16xf32>, tensor<3x16xf32> -> tensor<3x16xf32>
  %1 = lpu_graph.reduce "add" %0 dims <[1]> : tensor<3x16xf32> -> tensor<3xf32>
  %2 = lpu_graph.pointwise "rsqrt"(%1) : tensor<3xf32> -> tensor<3xf32>
  %3 = lpu_graph.reshape %2 : tensor<3xf32> -> tensor<3x1xf32>
  %4 = lpu_graph.pointwise "mul"(%x, %3) : tensor<3x16xf32>, tensor<3x1xf32> -> tensor<3x16xf32>
  %5 = lpu_graph.matmul %4, %q transpose [false, true] : tensor<3x16xf32>, tensor<40x16xf32> -> tensor<3x40xf32>
  %6 = lpu_graph.matmul %4, %k transpose [false, true] : tensor<3x16xf32>, tensor<8x16xf32> -> tensor<3x8xf32>
  %7 = lpu_graph.matmul %4, %v transpose [false, true] : tensor<3x16xf32>, tensor<8x16xf32> -> tensor<3x8xf32>
  func.return %5, %6, %7 : tensor<3x40xf32>, tensor<3x8xf32>, tensor<3x8xf32>
}

// Sine and cosine of one angle have the same dims: one part.
// CHECK-LABEL: func.func @sine_and_cosine(
// CHECK-NEXT:   %[[V0:\d+]] = lpu_loop.empty : tensor<8x4xf32>
// CHECK-NEXT:   %[[V1:\d+]] = lpu_loop.empty : tensor<4x8xf32>
// CHECK-NEXT:   %[[V2:\d+]], %[[V3:\d+]] = lpu_loop.nest [d0 = 8, d1 = 4] outs(%[[V0]], %[[V1]] : tensor<8x4xf32>, tensor<4x8xf32>) {
// CHECK-NEXT:     %[[V4:\d+]] = lpu_loop.load %x[d0, d1] : tensor<8x4xf32>
// CHECK-NEXT:     %[[V5:\d+]] = lpu_loop.load %y[d1] : tensor<4xf32>
// CHECK-NEXT:     %[[V6:\d+]] = arith.mulf %[[V4]], %[[V5]] : f32
// CHECK-NEXT:     %[[V7:\d+]] = math.sin %[[V6]] : f32
// CHECK-NEXT:     %[[V8:\d+]] = math.cos %[[V6]] : f32
// CHECK-NEXT:     lpu_loop.store "replace" %[[V7]], %[[V0]][d0, d1] : f32, tensor<8x4xf32>
// CHECK-NEXT:     lpu_loop.store "replace" %[[V8]], %[[V1]][d1, d0] : f32, tensor<4x8xf32>
// CHECK-NEXT:   } -> tensor<8x4xf32>, tensor<4x8xf32>
func.func @sine_and_cosine(%x: tensor<8x4xf32>, %y: tensor<4xf32>) -> (tensor<8x4xf32>, tensor<4x8xf32>) {
  %0 = lpu_graph.pointwise "mul"(%x, %y) : tensor<8x4xf32>, tensor<4xf32> -> tensor<8x4xf32>
  %1 = lpu_graph.pointwise "sin"(%0) : tensor<8x4xf32> -> tensor<8x4xf32>
  %2 = lpu_graph.transpose %0 <[1, 0]> : tensor<8x4xf32> -> tensor<4x8xf32>
  %3 = lpu_graph.pointwise "cos"(%2) : tensor<4x8xf32> -> tensor<4x8xf32>
  func.return %1, %3 : tensor<8x4xf32>, tensor<4x8xf32>
}

// A mean that is returned, and what is left when it is subtracted: the mean is not loaded again.
// CHECK-LABEL: func.func @mean_and_rest(
// CHECK-NEXT:   %[[V0:\d+]] = lpu_loop.empty : tensor<3x16xf32>
// CHECK-NEXT:   %[[V1:\d+]] = lpu_loop.empty : tensor<3x1xf32>
// CHECK-NEXT:   %[[V2:\d+]], %[[V3:\d+]] = lpu_loop.nest [d0 = 3] outs(%[[V0]], %[[V1]] : tensor<3x16xf32>, tensor<3x1xf32>) {
// CHECK-NEXT:     %[[V4:\d+]] = lpu_loop.fold "add" [r0 = 16] : f32 {
// CHECK-NEXT:       %[[V5:\d+]] = lpu_loop.load %x[d0, r0] : tensor<3x16xf32>
// CHECK-NEXT:       lpu_loop.yield %[[V5]] : f32
// CHECK-NEXT:     }
// CHECK-NEXT:     lpu_loop.store "replace" %[[V4]], %[[V1]][d0, 0] : f32, tensor<3x1xf32>
// CHECK-NEXT:     lpu_loop.over [d1 = 16] {
// CHECK-NEXT:       %[[V6:\d+]] = lpu_loop.load %x[d0, d1] : tensor<3x16xf32>
// CHECK-NEXT:       %[[V7:\d+]] = arith.subf %[[V6]], %[[V4]] : f32
// CHECK-NEXT:       lpu_loop.store "replace" %[[V7]], %[[V0]][d0, d1] : f32, tensor<3x16xf32>
// CHECK-NEXT:     }
// CHECK-NEXT:   } -> tensor<3x16xf32>, tensor<3x1xf32>
func.func @mean_and_rest(%x: tensor<3x16xf32>) -> (tensor<3x1xf32>, tensor<3x16xf32>) {
  %0 = lpu_graph.reduce "add" %x dims <[1]> : tensor<3x16xf32> -> tensor<3xf32>
  %1 = lpu_graph.reshape %0 : tensor<3xf32> -> tensor<3x1xf32>
  %2 = lpu_graph.pointwise "sub"(%x, %1) : tensor<3x16xf32>, tensor<3x1xf32> -> tensor<3x16xf32>
  func.return %1, %2 : tensor<3x1xf32>, tensor<3x16xf32>
}

// A product takes in all that read it element by element, whatever order their own dims are in; it
// need not be stored when nobody else reads it.
// CHECK-LABEL: func.func @product_of_two(
// CHECK-NEXT:   %[[V0:\d+]] = lpu_loop.empty : tensor<3x5xf32>
// CHECK-NEXT:   %[[V1:\d+]] = lpu_loop.empty : tensor<3x5xf32>
// CHECK-NEXT:   %[[V2:\d+]] = lpu_loop.empty : tensor<5x3xf32>
// CHECK-NEXT:   %[[V3:\d+]], %[[V4:\d+]] = lpu_loop.nest [d0 = 3, d1 = 5] outs(%[[V1]], %[[V2]] : tensor<3x5xf32>, tensor<5x3xf32>) {
// CHECK-NEXT:     %[[V5:\d+]] = lpu_loop.fold "add" [r0 = 8] : f32 {
// CHECK-NEXT:       %[[V6:\d+]] = lpu_loop.load %x[d0, r0] : tensor<3x8xf32>
// CHECK-NEXT:       %[[V7:\d+]] = lpu_loop.load %w[d1, r0] : tensor<5x8xf32>
// CHECK-NEXT:       %[[V8:\d+]] = arith.mulf %[[V6]], %[[V7]] : f32
// CHECK-NEXT:       lpu_loop.yield %[[V8]] : f32
// CHECK-NEXT:     }
// CHECK-NEXT:     %[[V9:\d+]] = math.exp %[[V5]] : f32
// CHECK-NEXT:     %[[V10:\d+]] = arith.negf %[[V5]] : f32
// CHECK-NEXT:     lpu_loop.store "replace" %[[V9]], %[[V1]][d0, d1] : f32, tensor<3x5xf32>
// CHECK-NEXT:     lpu_loop.store "replace" %[[V10]], %[[V2]][d1, d0] : f32, tensor<5x3xf32>
// CHECK-NEXT:   } -> tensor<3x5xf32>, tensor<5x3xf32>
func.func @product_of_two(%x: tensor<3x8xf32>, %w: tensor<5x8xf32>) -> (tensor<3x5xf32>, tensor<5x3xf32>) {
  %0 = lpu_graph.matmul %x, %w transpose [false, true] : tensor<3x8xf32>, tensor<5x8xf32> -> tensor<3x5xf32>
  %1 = lpu_graph.pointwise "exp"(%0) : tensor<3x5xf32> -> tensor<3x5xf32>
  %2 = lpu_graph.transpose %0 <[1, 0]> : tensor<3x5xf32> -> tensor<5x3xf32>
  %3 = lpu_graph.pointwise "neg"(%2) : tensor<5x3xf32> -> tensor<5x3xf32>
  func.return %1, %3 : tensor<3x5xf32>, tensor<5x3xf32>
}

// A product with a residual, and the sum of each row of that, which needs the row of all cores.
// CHECK-LABEL: func.func @product_and_row(
// CHECK-NEXT:   %[[V0:\d+]] = lpu_loop.empty : tensor<3x5xf32>
// CHECK-NEXT:   %[[V1:\d+]] = lpu_loop.nest [d0 = 3, d1 = 5] outs(%[[V0]] : tensor<3x5xf32>) {
// CHECK-NEXT:     %[[V2:\d+]] = lpu_loop.fold "add" [r0 = 8] : f32 {
// CHECK-NEXT:       %[[V3:\d+]] = lpu_loop.load %x[d0, r0] : tensor<3x8xf32>
// CHECK-NEXT:       %[[V4:\d+]] = lpu_loop.load %w[d1, r0] : tensor<5x8xf32>
// CHECK-NEXT:       %[[V5:\d+]] = arith.mulf %[[V3]], %[[V4]] : f32
// CHECK-NEXT:       lpu_loop.yield %[[V5]] : f32
// CHECK-NEXT:     }
// CHECK-NEXT:     %[[V6:\d+]] = lpu_loop.load %r[d0, d1] : tensor<3x5xf32>
// CHECK-NEXT:     %[[V7:\d+]] = arith.addf %[[V2]], %[[V6]] : f32
// CHECK-NEXT:     lpu_loop.store "replace" %[[V7]], %[[V0]][d0, d1] : f32, tensor<3x5xf32>
// CHECK-NEXT:   } -> tensor<3x5xf32>
// CHECK-NEXT:   %[[V8:\d+]] = lpu_loop.empty : tensor<3xf32>
// CHECK-NEXT:   %[[V9:\d+]] = lpu_loop.nest [d0 = 3] outs(%[[V8]] : tensor<3xf32>) {
// CHECK-NEXT:     %[[V10:\d+]] = lpu_loop.fold "add" [r0 = 5] : f32 {
// CHECK-NEXT:       %[[V11:\d+]] = lpu_loop.load %[[V1]][d0, r0] : tensor<3x5xf32>
// CHECK-NEXT:       lpu_loop.yield %[[V11]] : f32
// CHECK-NEXT:     }
// CHECK-NEXT:     lpu_loop.store "replace" %[[V10]], %[[V8]][d0] : f32, tensor<3xf32>
// CHECK-NEXT:   } -> tensor<3xf32>
func.func @product_and_row(%x: tensor<3x8xf32>, %w: tensor<5x8xf32>, %r: tensor<3x5xf32>) -> (tensor<3x5xf32>, tensor<3xf32>) {
  %0 = lpu_graph.matmul %x, %w transpose [false, true] : tensor<3x8xf32>, tensor<5x8xf32> -> tensor<3x5xf32>
  %1 = lpu_graph.pointwise "add"(%0, %r) : tensor<3x5xf32>, tensor<3x5xf32> -> tensor<3x5xf32>
  %2 = lpu_graph.reduce "add" %1 dims <[1]> : tensor<3x5xf32> -> tensor<3xf32>
  func.return %1, %2 : tensor<3x5xf32>, tensor<3xf32>
}

// Nor does a product join what would make it for each of its own points.
// CHECK-LABEL: func.func @product_repeated(
// CHECK-NEXT:   %[[V0:\d+]] = lpu_loop.empty : tensor<3x1xf32>
// CHECK-NEXT:   %[[V1:\d+]] = lpu_loop.nest [d0 = 3] outs(%[[V0]] : tensor<3x1xf32>) {
// CHECK-NEXT:     %[[V2:\d+]] = lpu_loop.fold "add" [r0 = 8] : f32 {
// CHECK-NEXT:       %[[V3:\d+]] = lpu_loop.load %x[d0, r0] : tensor<3x8xf32>
// CHECK-NEXT:       %[[V4:\d+]] = lpu_loop.load %w[r0] : tensor<8xf32>
// CHECK-NEXT:       %[[V5:\d+]] = arith.mulf %[[V3]], %[[V4]] : f32
// CHECK-NEXT:       lpu_loop.yield %[[V5]] : f32
// CHECK-NEXT:     }
// CHECK-NEXT:     lpu_loop.store "replace" %[[V2]], %[[V0]][d0, 0] : f32, tensor<3x1xf32>
// CHECK-NEXT:   } -> tensor<3x1xf32>
// CHECK-NEXT:   %[[V6:\d+]] = lpu_loop.empty : tensor<3x5xf32>
// CHECK-NEXT:   %[[V7:\d+]] = lpu_loop.nest [d0 = 3, d1 = 5] outs(%[[V6]] : tensor<3x5xf32>) {
// CHECK-NEXT:     %[[V8:\d+]] = lpu_loop.load %y[d0, d1] : tensor<3x5xf32>
// CHECK-NEXT:     %[[V9:\d+]] = lpu_loop.load %[[V1]][d0, 0] : tensor<3x1xf32>
// CHECK-NEXT:     %[[V10:\d+]] = arith.mulf %[[V8]], %[[V9]] : f32
// CHECK-NEXT:     lpu_loop.store "replace" %[[V10]], %[[V6]][d0, d1] : f32, tensor<3x5xf32>
// CHECK-NEXT:   } -> tensor<3x5xf32>
func.func @product_repeated(%x: tensor<3x8xf32>, %w: tensor<8xf32>, %y: tensor<3x5xf32>) -> (tensor<3x1xf32>, tensor<3x5xf32>) {
  %0 = lpu_graph.reshape %w : tensor<8xf32> -> tensor<8x1xf32>
  %1 = lpu_graph.matmul %x, %0 transpose [false, false] : tensor<3x8xf32>, tensor<8x1xf32> -> tensor<3x1xf32>
  %2 = lpu_graph.pointwise "mul"(%y, %1) : tensor<3x5xf32>, tensor<3x1xf32> -> tensor<3x5xf32>
  func.return %1, %2 : tensor<3x1xf32>, tensor<3x5xf32>
}

// The counter is read for the place in the cache and then goes up: not in one kernel.  Both caches
// are stored to in one, and loads of the angle are shared along the dim that steps through it.
// CHECK-LABEL: func.func @counter(
// CHECK-NEXT:   %[[V0:\d+]] = lpu_loop.empty : tensor<i64>
// CHECK-NEXT:   %[[V1:\d+]] = lpu_loop.nest [] outs(%[[V0]] : tensor<i64>) {
// CHECK-NEXT:     %[[V2:\d+]] = lpu_loop.load %c[] : tensor<i64>
// CHECK-NEXT:     %[[V3:\d+]] = arith.constant 1 : i64
// CHECK-NEXT:     %[[V4:\d+]] = arith.addi %[[V2]], %[[V3]] : i64
// CHECK-NEXT:     lpu_loop.store "replace" %[[V4]], %[[V0]][] : i64, tensor<i64>
// CHECK-NEXT:   } -> tensor<i64>
// CHECK-NEXT:   %[[V5:\d+]], %[[V6:\d+]] = lpu_loop.nest [d0 = 2, d1 = 4] outs(%k, %v : tensor<2x9x4xf32>, tensor<2x9x4xf32>) {
// CHECK-NEXT:     %[[V7:\d+]] = lpu_loop.load %c[] : tensor<i64>
// CHECK-NEXT:     %[[V8:\d+]] = arith.constant 0 : i64
// CHECK-NEXT:     %[[V9:\d+]] = arith.cmpi sge, %[[V7]], %[[V8]] : i64
// CHECK-NEXT:     %[[V10:\d+]] = lpu_loop.index 9 : i64
// CHECK-NEXT:     %[[V11:\d+]] = arith.cmpi slt, %[[V7]], %[[V10]] : i64
// CHECK-NEXT:     %[[V12:\d+]] = arith.andi %[[V9]], %[[V11]] : i1
// CHECK-NEXT:     lpu_loop.check %[[V12]], "IndexError", "index out of range for dimension 1 with size 9"
// CHECK-NEXT:     %[[V13:\d+]] = lpu_loop.load %x[d0, 0, d1] : tensor<2x1x4xf32>
// CHECK-NEXT:     %[[V14:\d+]] = lpu_loop.load %a[d1] : tensor<4xf32>
// CHECK-NEXT:     %[[V15:\d+]] = arith.mulf %[[V13]], %[[V14]] : f32
// CHECK-NEXT:     %[[V16:\d+]] = arith.addf %[[V13]], %[[V14]] : f32
// CHECK-NEXT:     lpu_loop.store "replace" %[[V15]], %k[d0, _0, d1](%[[V7]]) : f32, tensor<2x9x4xf32>
// CHECK-NEXT:     lpu_loop.store "replace" %[[V16]], %v[d0, _0, d1](%[[V7]]) : f32, tensor<2x9x4xf32>
// CHECK-NEXT:   } -> tensor<2x9x4xf32>, tensor<2x9x4xf32>
// CHECK-NEXT:   lpu_loop.write_back %[[V1]], %c : tensor<i64>, tensor<i64>
// CHECK-NEXT:   lpu_loop.write_back %[[V5]], %k : tensor<2x9x4xf32>, tensor<2x9x4xf32>
// CHECK-NEXT:   lpu_loop.write_back %[[V6]], %v : tensor<2x9x4xf32>, tensor<2x9x4xf32>
func.func @counter(%c: tensor<i64>, %k: tensor<2x9x4xf32>, %v: tensor<2x9x4xf32>, %x: tensor<2x1x4xf32>, %a: tensor<4xf32>) {
  %one = lpu_graph.full 1 : i64 : tensor<i64>
  %0 = lpu_graph.pointwise "add"(%c, %one) : tensor<i64>, tensor<i64> -> tensor<i64>
  %at = lpu_graph.reshape %c : tensor<i64> -> tensor<1xi64>
  %1 = lpu_graph.pointwise "mul"(%x, %a) : tensor<2x1x4xf32>, tensor<4xf32> -> tensor<2x1x4xf32>
  %2 = lpu_graph.pointwise "add"(%x, %a) : tensor<2x1x4xf32>, tensor<4xf32> -> tensor<2x1x4xf32>
  %3 = lpu_graph.scatter "replace" %1, %k[%at] dims <[1]> at 1 : tensor<2x1x4xf32>, tensor<2x9x4xf32>[tensor<1xi64>] -> tensor<2x9x4xf32>
  %4 = lpu_graph.scatter "replace" %2, %v[%at] dims <[1]> at 1 : tensor<2x1x4xf32>, tensor<2x9x4xf32>[tensor<1xi64>] -> tensor<2x9x4xf32>
  lpu_graph.write_back %0, %c : tensor<i64>, tensor<i64>
  lpu_graph.write_back %3, %k : tensor<2x9x4xf32>, tensor<2x9x4xf32>
  lpu_graph.write_back %4, %v : tensor<2x9x4xf32>, tensor<2x9x4xf32>
  func.return
}

// A running fold keeps its own loop; what the host calls for must be there, and its result is late.
// CHECK-LABEL: func.func @apart(
// CHECK-NEXT:   %[[V0:\d+]] = lpu_loop.empty : tensor<8xf32>
// CHECK-NEXT:   %[[V1:\d+]] = lpu_loop.nest [d0 = 8] outs(%[[V0]] : tensor<8xf32>) {
// CHECK-NEXT:     %[[V2:\d+]] = lpu_loop.load %x[d0] : tensor<8xf32>
// CHECK-NEXT:     %[[V3:\d+]] = arith.negf %[[V2]] : f32
// CHECK-NEXT:     lpu_loop.store "replace" %[[V3]], %[[V0]][d0] : f32, tensor<8xf32>
// CHECK-NEXT:   } -> tensor<8xf32>
// CHECK-NEXT:   %[[V4:\d+]] = "lpu.host_call"(%[[V1]]) <{overload = "aten.sort.default", arguments = {"0" = #lpu.operand<0>}, reason = "not native"}> : (tensor<8xf32>) -> tensor<8xf32>
// CHECK-NEXT:   %[[V5:\d+]] = lpu_loop.empty : tensor<8xf32>
// CHECK-NEXT:   %[[V6:\d+]] = lpu_loop.nest [d0 = 8] outs(%[[V5]] : tensor<8xf32>) {
// CHECK-NEXT:     %[[V7:\d+]] = lpu_loop.load %x[d0] : tensor<8xf32>
// CHECK-NEXT:     %[[V8:\d+]] = lpu_loop.load %[[V4]][d0] : tensor<8xf32>
// CHECK-NEXT:     %[[V9:\d+]] = arith.mulf %[[V7]], %[[V8]] : f32
// CHECK-NEXT:     lpu_loop.store "replace" %[[V9]], %[[V5]][d0] : f32, tensor<8xf32>
// CHECK-NEXT:   } -> tensor<8xf32>
// CHECK-NEXT:   %[[V10:\d+]] = lpu_loop.empty : tensor<8xf32>
// CHECK-NEXT:   %[[V11:\d+]] = lpu_loop.nest [d0 = 8] outs(%[[V10]] : tensor<8xf32>) {
// CHECK-NEXT:     %[[V12:\d+]] = lpu_loop.scan "add" [r0 = 8] along d0 : f32 {
// CHECK-NEXT:       %[[V13:\d+]] = lpu_loop.load %x[r0] : tensor<8xf32>
// CHECK-NEXT:       lpu_loop.yield %[[V13]] : f32
// CHECK-NEXT:     }
// CHECK-NEXT:     lpu_loop.store "replace" %[[V12]], %[[V10]][d0] : f32, tensor<8xf32>
// CHECK-NEXT:   } -> tensor<8xf32>
func.func @apart(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
  %0 = lpu_graph.pointwise "neg"(%x) : tensor<8xf32> -> tensor<8xf32>
  %1 = "lpu.host_call"(%0) <{overload = "aten.sort.default", arguments = {"0" = #lpu.operand<0>}, reason = "not native"}> : (tensor<8xf32>) -> tensor<8xf32>
  %2 = lpu_graph.pointwise "mul"(%x, %1) : tensor<8xf32>, tensor<8xf32> -> tensor<8xf32>
  %3 = lpu_graph.scan "add" %x dim 0 : tensor<8xf32> -> tensor<8xf32>
  func.return %0, %2, %3 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}

// Large nests without anything in common stay apart; a small one goes with its neighbour.
// CHECK-LABEL: func.func @in_common(
// CHECK-NEXT:   %[[V0:\d+]] = lpu_loop.empty : tensor<40000xf32>
// CHECK-NEXT:   %[[V1:\d+]] = lpu_loop.nest [d0 = 40000] outs(%[[V0]] : tensor<40000xf32>) {
// CHECK-NEXT:     %[[V2:\d+]] = lpu_loop.load %x[d0] : tensor<40000xf32>
// CHECK-NEXT:     %[[V3:\d+]] = arith.negf %[[V2]] : f32
// CHECK-NEXT:     lpu_loop.store "replace" %[[V3]], %[[V0]][d0] : f32, tensor<40000xf32>
// CHECK-NEXT:   } -> tensor<40000xf32>
// CHECK-NEXT:   %[[V4:\d+]] = lpu_loop.empty : tensor<40000xf32>
// CHECK-NEXT:   %[[V5:\d+]] = lpu_loop.empty : tensor<4xf32>
// CHECK-NEXT:   %[[V6:\d+]], %[[V7:\d+]] = lpu_loop.nest [] outs(%[[V4]], %[[V5]] : tensor<40000xf32>, tensor<4xf32>) {
// CHECK-NEXT:     lpu_loop.over [d0 = 40000] {
// CHECK-NEXT:       %[[V8:\d+]] = lpu_loop.load %y[d0] : tensor<40000xf32>
// CHECK-NEXT:       %[[V9:\d+]] = arith.negf %[[V8]] : f32
// CHECK-NEXT:       lpu_loop.store "replace" %[[V9]], %[[V4]][d0] : f32, tensor<40000xf32>
// CHECK-NEXT:     }
// CHECK-NEXT:     lpu_loop.over [d1 = 4] {
// CHECK-NEXT:       %[[V10:\d+]] = lpu_loop.load %z[d1] : tensor<4xf32>
// CHECK-NEXT:       %[[V11:\d+]] = arith.negf %[[V10]] : f32
// CHECK-NEXT:       lpu_loop.store "replace" %[[V11]], %[[V5]][d1] : f32, tensor<4xf32>
// CHECK-NEXT:     }
// CHECK-NEXT:   } -> tensor<40000xf32>, tensor<4xf32>
// CHECK-NEXT:   func.return %[[V1]], %[[V6]], %[[V7]] : tensor<40000xf32>, tensor<40000xf32>, tensor<4xf32>
func.func @in_common(%x: tensor<40000xf32>, %y: tensor<40000xf32>, %z: tensor<4xf32>) -> (tensor<40000xf32>, tensor<40000xf32>, tensor<4xf32>) {
  %0 = lpu_graph.pointwise "neg"(%x) : tensor<40000xf32> -> tensor<40000xf32>
  %1 = lpu_graph.pointwise "neg"(%y) : tensor<40000xf32> -> tensor<40000xf32>
  %2 = lpu_graph.pointwise "neg"(%z) : tensor<4xf32> -> tensor<4xf32>
  func.return %0, %1, %2 : tensor<40000xf32>, tensor<40000xf32>, tensor<4xf32>
}
