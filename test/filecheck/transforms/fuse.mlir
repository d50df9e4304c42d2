// RUN: lpu-opt -p graph-to-loop,fuse %s | filecheck %s

// A chain of element-wise operations is one nest.
// CHECK-LABEL: func.func @chain(
// CHECK-NEXT:   %[[V0:\d+]] = lpu_loop.empty : tensor<8xf32>
// CHECK-NEXT:   %[[V1:\d+]] = lpu_loop.nest [d0 = 8] outs(%[[V0]] : tensor<8xf32>) {
// CHECK-NEXT:     %[[V2:\d+]] = lpu_loop.load %x[d0] : tensor<8xf32>
// CHECK-NEXT:     %[[V3:\d+]] = lpu_loop.load %y[d0] : tensor<8xf32>
// CHECK-NEXT:     %[[V4:\d+]] = arith.addf %[[V2]], %[[V3]] : f32
// CHECK-NEXT:     %[[V5:\d+]] = math.exp %[[V4]] : f32
// CHECK-NEXT:     %[[V6:\d+]] = arith.negf %[[V5]] : f32
// CHECK-NEXT:     lpu_loop.store "replace" %[[V6]], %[[V0]][d0] : f32, tensor<8xf32>
// CHECK-NEXT:   } -> tensor<8xf32>
// CHECK-NEXT:   func.return %[[V1]] : tensor<8xf32>
func.func @chain(%x: tensor<8xf32>, %y: tensor<8xf32>) -> tensor<8xf32> {
  %0 = lpu_graph.pointwise "add"(%x, %y) : tensor<8xf32>, tensor<8xf32> -> tensor<8xf32>
  %1 = lpu_graph.pointwise "exp"(%0) : tensor<8xf32> -> tensor<8xf32>
  %2 = lpu_graph.pointwise "neg"(%1) : tensor<8xf32> -> tensor<8xf32>
  func.return %2 : tensor<8xf32>
}

// What is returned must exist: its reader loads it.
// CHECK-LABEL: func.func @also_returned(
// CHECK-NEXT:   %[[V0:\d+]] = lpu_loop.empty : tensor<8xf32>
// CHECK-NEXT:   %[[V1:\d+]] = lpu_loop.nest [d0 = 8] outs(%[[V0]] : tensor<8xf32>) {
// CHECK-NEXT:     %[[V2:\d+]] = lpu_loop.load %x[d0] : tensor<8xf32>
// CHECK-NEXT:     %[[V3:\d+]] = math.exp %[[V2]] : f32
// CHECK-NEXT:     lpu_loop.store "replace" %[[V3]], %[[V0]][d0] : f32, tensor<8xf32>
// CHECK-NEXT:   } -> tensor<8xf32>
// CHECK-NEXT:   %[[V4:\d+]] = lpu_loop.empty : tensor<8xf32>
// CHECK-NEXT:   %[[V5:\d+]] = lpu_loop.nest [d0 = 8] outs(%[[V4]] : tensor<8xf32>) {
// CHECK-NEXT:     %[[V6:\d+]] = lpu_loop.load %[[V1]][d0] : tensor<8xf32>
// CHECK-NEXT:     %[[V7:\d+]] = arith.negf %[[V6]] : f32
// CHECK-NEXT:     lpu_loop.store "replace" %[[V7]], %[[V4]][d0] : f32, tensor<8xf32>
// CHECK-NEXT:   } -> tensor<8xf32>
// CHECK-NEXT:   func.return %[[V1]], %[[V5]] : tensor<8xf32>, tensor<8xf32>
func.func @also_returned(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %0 = lpu_graph.pointwise "exp"(%x) : tensor<8xf32> -> tensor<8xf32>
  %1 = lpu_graph.pointwise "neg"(%0) : tensor<8xf32> -> tensor<8xf32>
  func.return %0, %1 : tensor<8xf32>, tensor<8xf32>
}

// A product takes in what reads it element by element.
// CHECK-LABEL: func.func @epilogue(
// CHECK-NEXT:   %[[V0:\d+]] = lpu_loop.empty : tensor<3x5xf32>
// CHECK-NEXT:   %[[V1:\d+]] = lpu_loop.nest [d0 = 3, d1 = 5] outs(%[[V0]] : tensor<3x5xf32>) {
// CHECK-NEXT:     %[[V2:\d+]] = lpu_loop.fold "add" {{\[}}[[R0:r\d+]] = 8] : f32 {
// CHECK-NEXT:       %[[V3:\d+]] = lpu_loop.load %x[d0, [[R0]]] : tensor<3x8xf32>
// CHECK-NEXT:       %[[V4:\d+]] = lpu_loop.load %w[d1, [[R0]]] : tensor<5x8xf32>
// CHECK-NEXT:       %[[V5:\d+]] = arith.mulf %[[V3]], %[[V4]] : f32
// CHECK-NEXT:       lpu_loop.yield %[[V5]] : f32
// CHECK-NEXT:     }
// CHECK-NEXT:     %[[V6:\d+]] = lpu_loop.load %b[d1] : tensor<5xf32>
// CHECK-NEXT:     %[[V7:\d+]] = arith.addf %[[V2]], %[[V6]] : f32
// CHECK-NEXT:     lpu_loop.store "replace" %[[V7]], %[[V0]][d0, d1] : f32, tensor<3x5xf32>
// CHECK-NEXT:   } -> tensor<3x5xf32>
// CHECK-NEXT:   func.return %[[V1]] : tensor<3x5xf32>
func.func @epilogue(%x: tensor<3x8xf32>, %w: tensor<5x8xf32>, %b: tensor<5xf32>) -> tensor<3x5xf32> {
  %0 = lpu_graph.matmul %x, %w transpose [false, true] : tensor<3x8xf32>, tensor<5x8xf32> -> tensor<3x5xf32>
  %1 = lpu_graph.pointwise "add"(%0, %b) : tensor<3x5xf32>, tensor<5xf32> -> tensor<3x5xf32>
  func.return %1 : tensor<3x5xf32>
}

// A product with two readers is computed once.
// CHECK-LABEL: func.func @product_of_two(
// CHECK-NEXT:   %[[V0:\d+]] = lpu_loop.empty : tensor<3x5xf32>
// CHECK-NEXT:   %[[V1:\d+]] = lpu_loop.nest [d0 = 3, d1 = 5] outs(%[[V0]] : tensor<3x5xf32>) {
// CHECK-NEXT:     %[[V2:\d+]] = lpu_loop.fold "add" {{\[}}[[R0:r\d+]] = 8] : f32 {
// CHECK-NEXT:       %[[V3:\d+]] = lpu_loop.load %x[d0, [[R0]]] : tensor<3x8xf32>
// CHECK-NEXT:       %[[V4:\d+]] = lpu_loop.load %w[d1, [[R0]]] : tensor<5x8xf32>
// CHECK-NEXT:       %[[V5:\d+]] = arith.mulf %[[V3]], %[[V4]] : f32
// CHECK-NEXT:       lpu_loop.yield %[[V5]] : f32
// CHECK-NEXT:     }
// CHECK-NEXT:     lpu_loop.store "replace" %[[V2]], %[[V0]][d0, d1] : f32, tensor<3x5xf32>
// CHECK-NEXT:   } -> tensor<3x5xf32>
// CHECK-NEXT:   %[[V6:\d+]] = lpu_loop.empty : tensor<3x5xf32>
// CHECK-NEXT:   %[[V7:\d+]] = lpu_loop.nest [d0 = 3, d1 = 5] outs(%[[V6]] : tensor<3x5xf32>) {
// CHECK-NEXT:     %[[V8:\d+]] = lpu_loop.load %[[V1]][d0, d1] : tensor<3x5xf32>
// CHECK-NEXT:     %[[V9:\d+]] = math.exp %[[V8]] : f32
// CHECK-NEXT:     lpu_loop.store "replace" %[[V9]], %[[V6]][d0, d1] : f32, tensor<3x5xf32>
// CHECK-NEXT:   } -> tensor<3x5xf32>
// CHECK-NEXT:   %[[V10:\d+]] = lpu_loop.empty : tensor<5x3xf32>
// CHECK-NEXT:   %[[V11:\d+]] = lpu_loop.nest [d0 = 5, d1 = 3] outs(%[[V10]] : tensor<5x3xf32>) {
// CHECK-NEXT:     %[[V12:\d+]] = lpu_loop.load %[[V1]][d1, d0] : tensor<3x5xf32>
// CHECK-NEXT:     %[[V13:\d+]] = arith.negf %[[V12]] : f32
// CHECK-NEXT:     lpu_loop.store "replace" %[[V13]], %[[V10]][d0, d1] : f32, tensor<5x3xf32>
// CHECK-NEXT:   } -> tensor<5x3xf32>
// CHECK-NEXT:   func.return %[[V7]], %[[V11]] : tensor<3x5xf32>, tensor<5x3xf32>
func.func @product_of_two(%x: tensor<3x8xf32>, %w: tensor<5x8xf32>) -> (tensor<3x5xf32>, tensor<5x3xf32>) {
  %0 = lpu_graph.matmul %x, %w transpose [false, true] : tensor<3x8xf32>, tensor<5x8xf32> -> tensor<3x5xf32>
  %1 = lpu_graph.pointwise "exp"(%0) : tensor<3x5xf32> -> tensor<3x5xf32>
  %2 = lpu_graph.transpose %0 <[1, 0]> : tensor<3x5xf32> -> tensor<5x3xf32>
  %3 = lpu_graph.pointwise "neg"(%2) : tensor<5x3xf32> -> tensor<5x3xf32>
  func.return %1, %3 : tensor<3x5xf32>, tensor<5x3xf32>
}

// Nor does a product join a product, which reads each of its elements many times.
// CHECK-LABEL: func.func @product_of_product(
// CHECK-NEXT:   %[[V0:\d+]] = lpu_loop.empty : tensor<3x5xf32>
// CHECK-NEXT:   %[[V1:\d+]] = lpu_loop.nest [d0 = 3, d1 = 5] outs(%[[V0]] : tensor<3x5xf32>) {
// CHECK-NEXT:     %[[V2:\d+]] = lpu_loop.fold "add" {{\[}}[[R0:r\d+]] = 8] : f32 {
// CHECK-NEXT:       %[[V3:\d+]] = lpu_loop.load %x[d0, [[R0]]] : tensor<3x8xf32>
// CHECK-NEXT:       %[[V4:\d+]] = lpu_loop.load %v[d1, [[R0]]] : tensor<5x8xf32>
// CHECK-NEXT:       %[[V5:\d+]] = arith.mulf %[[V3]], %[[V4]] : f32
// CHECK-NEXT:       lpu_loop.yield %[[V5]] : f32
// CHECK-NEXT:     }
// CHECK-NEXT:     lpu_loop.store "replace" %[[V2]], %[[V0]][d0, d1] : f32, tensor<3x5xf32>
// CHECK-NEXT:   } -> tensor<3x5xf32>
// CHECK-NEXT:   %[[V6:\d+]] = lpu_loop.empty : tensor<3x6xf32>
// CHECK-NEXT:   %[[V7:\d+]] = lpu_loop.nest [d0 = 3, d1 = 6] outs(%[[V6]] : tensor<3x6xf32>) {
// CHECK-NEXT:     %[[V8:\d+]] = lpu_loop.fold "add" {{\[}}[[R0:r\d+]] = 5] : f32 {
// CHECK-NEXT:       %[[V9:\d+]] = lpu_loop.load %[[V1]][d0, [[R0]]] : tensor<3x5xf32>
// CHECK-NEXT:       %[[V10:\d+]] = lpu_loop.load %w[d1, [[R0]]] : tensor<6x5xf32>
// CHECK-NEXT:       %[[V11:\d+]] = arith.mulf %[[V9]], %[[V10]] : f32
// CHECK-NEXT:       lpu_loop.yield %[[V11]] : f32
// CHECK-NEXT:     }
// CHECK-NEXT:     lpu_loop.store "replace" %[[V8]], %[[V6]][d0, d1] : f32, tensor<3x6xf32>
// CHECK-NEXT:   } -> tensor<3x6xf32>
// CHECK-NEXT:   func.return %[[V7]] : tensor<3x6xf32>
func.func @product_of_product(%x: tensor<3x8xf32>, %v: tensor<5x8xf32>, %w: tensor<6x5xf32>) -> tensor<3x6xf32> {
  %0 = lpu_graph.matmul %x, %v transpose [false, true] : tensor<3x8xf32>, tensor<5x8xf32> -> tensor<3x5xf32>
  %1 = lpu_graph.matmul %0, %w transpose [false, true] : tensor<3x5xf32>, tensor<6x5xf32> -> tensor<3x6xf32>
  func.return %1 : tensor<3x6xf32>
}

// A running sum depends on its neighbours: readers at other places need it in memory.
// CHECK-LABEL: func.func @scan(
// CHECK-NEXT:   %[[V0:\d+]] = lpu_loop.empty : tensor<8xf32>
// CHECK-NEXT:   %[[V1:\d+]] = lpu_loop.nest [d0 = 8] outs(%[[V0]] : tensor<8xf32>) {
// CHECK-NEXT:     %[[V2:\d+]] = lpu_loop.scan "add" {{\[}}[[R0:r\d+]] = 8] along d0 : f32 {
// CHECK-NEXT:       %[[V3:\d+]] = lpu_loop.load %x[r0] : tensor<8xf32>
// CHECK-NEXT:       lpu_loop.yield %[[V3]] : f32
// CHECK-NEXT:     }
// CHECK-NEXT:     lpu_loop.store "replace" %[[V2]], %[[V0]][d0] : f32, tensor<8xf32>
// CHECK-NEXT:   } -> tensor<8xf32>
// CHECK-NEXT:   %[[V4:\d+]] = lpu_loop.empty : tensor<8xf32>
// CHECK-NEXT:   %[[V5:\d+]] = lpu_loop.nest [d0 = 8] outs(%[[V4]] : tensor<8xf32>) {
// CHECK-NEXT:     %[[V6:\d+]] = lpu_loop.load %[[V1]][-d0 + 7] : tensor<8xf32>
// CHECK-NEXT:     %[[V7:\d+]] = arith.negf %[[V6]] : f32
// CHECK-NEXT:     lpu_loop.store "replace" %[[V7]], %[[V4]][d0] : f32, tensor<8xf32>
// CHECK-NEXT:   } -> tensor<8xf32>
// CHECK-NEXT:   func.return %[[V5]] : tensor<8xf32>
func.func @scan(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = lpu_graph.scan "add" %x dim 0 : tensor<8xf32> -> tensor<8xf32>
  %1 = lpu_graph.slice %0 starts <[7]> steps <[-1]> : tensor<8xf32> -> tensor<8xf32>
  %2 = lpu_graph.pointwise "neg"(%1) : tensor<8xf32> -> tensor<8xf32>
  func.return %2 : tensor<8xf32>
}

// What a host call takes must exist.
// CHECK-LABEL: func.func @host_call(
// CHECK-NEXT:   %[[V0:\d+]] = lpu_loop.empty : tensor<8xf32>
// CHECK-NEXT:   %[[V1:\d+]] = lpu_loop.nest [d0 = 8] outs(%[[V0]] : tensor<8xf32>) {
// CHECK-NEXT:     %[[V2:\d+]] = lpu_loop.load %x[d0] : tensor<8xf32>
// CHECK-NEXT:     %[[V3:\d+]] = arith.negf %[[V2]] : f32
// CHECK-NEXT:     lpu_loop.store "replace" %[[V3]], %[[V0]][d0] : f32, tensor<8xf32>
// CHECK-NEXT:   } -> tensor<8xf32>
// CHECK-NEXT:   %[[V4:\d+]] = "lpu.host_call"(%[[V1]]) <{overload = "aten.sort.default", arguments = {"0" = #lpu.operand<0>}, reason = "not native"}> : (tensor<8xf32>) -> tensor<8xf32>
// CHECK-NEXT:   func.return %[[V4]] : tensor<8xf32>
func.func @host_call(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = lpu_graph.pointwise "neg"(%x) : tensor<8xf32> -> tensor<8xf32>
  %1 = "lpu.host_call"(%0) <{overload = "aten.sort.default", arguments = {"0" = #lpu.operand<0>}, reason = "not native"}> : (tensor<8xf32>) -> tensor<8xf32>
  func.return %1 : tensor<8xf32>
}

// A mean of squares, two products, and the gate between them: one nest.
// CHECK-LABEL: func.func @norm_and_gate(
// CHECK-NEXT:   %[[V0:\d+]] = lpu_loop.empty : tensor<3x40xf32>
// CHECK-NEXT:   %[[V1:\d+]] = lpu_loop.nest [d0 = 3, d1 = 40] outs(%[[V0]] : tensor<3x40xf32>) {
// CHECK-NEXT:     %[[V2:\d+]] = lpu_loop.fold "add" {{\[}}[[R0:r\d+]] = 16] : f32 {
// CHECK-NEXT:       %[[V3:\d+]] = lpu_loop.load %x[d0, [[R0]]] : tensor<3x16xf32>
// CHECK-NEXT:       %[[V4:\d+]] = arith.mulf %[[V3]], %[[V3]] : f32
// CHECK-NEXT:       lpu_loop.yield %[[V4]] : f32
// CHECK-NEXT:     }
// CHECK-NEXT:     %[[V5:\d+]] = math.rsqrt %[[V2]] : f32
// CHECK-NEXT:     %[[V6:\d+]] = lpu_loop.fold "add" {{\[}}[[R1:r\d+]] = 16] : f32 {
// CHECK-NEXT:       %[[V7:\d+]] = lpu_loop.load %x[d0, [[R1]]] : tensor<3x16xf32>
// CHECK-NEXT:       %[[V8:\d+]] = arith.mulf %[[V7]], %[[V5]] : f32
// CHECK-NEXT:       %[[V9:\d+]] = lpu_loop.load %g[d1, [[R1]]] : tensor<40x16xf32>
// CHECK-NEXT:       %[[V10:\d+]] = arith.mulf %[[V8]], %[[V9]] : f32
// CHECK-NEXT:       lpu_loop.yield %[[V10]] : f32
// CHECK-NEXT:     }
// CHECK-NEXT:     %[[V11:\d+]] = arith.constant 1.000000e+00 : f32
// CHECK-NEXT:     %[[V12:\d+]] = arith.negf %[[V6]] : f32
// CHECK-NEXT:     %[[V13:\d+]] = math.exp %[[V12]] : f32
// CHECK-NEXT:     %[[V14:\d+]] = arith.addf %[[V11]], %[[V13]] : f32
// CHECK-NEXT:     %[[V15:\d+]] = arith.divf %[[V11]], %[[V14]] : f32
// CHECK-NEXT:     %[[V16:\d+]] = arith.mulf %[[V6]], %[[V15]] : f32
// CHECK-NEXT:     %[[V17:\d+]] = lpu_loop.fold "add" {{\[}}[[R1:r\d+]] = 16] : f32 {
// CHECK-NEXT:       %[[V18:\d+]] = lpu_loop.load %x[d0, [[R1]]] : tensor<3x16xf32>
// CHECK-NEXT:       %[[V19:\d+]] = arith.mulf %[[V18]], %[[V5]] : f32
// CHECK-NEXT:       %[[V20:\d+]] = lpu_loop.load %u[d1, [[R1]]] : tensor<40x16xf32>
// CHECK-NEXT:       %[[V21:\d+]] = arith.mulf %[[V19]], %[[V20]] : f32
// CHECK-NEXT:       lpu_loop.yield %[[V21]] : f32
// CHECK-NEXT:     }
// CHECK-NEXT:     %[[V22:\d+]] = arith.mulf %[[V16]], %[[V17]] : f32
// CHECK-NEXT:     lpu_loop.store "replace" %[[V22]], %[[V0]][d0, d1] : f32, tensor<3x40xf32>
// CHECK-NEXT:   } -> tensor<3x40xf32>
// CHECK-NEXT:   func.return %[[V1]] : tensor<3x40xf32>
func.func @norm_and_gate(%x: tensor<3x16xf32>, %g: tensor<40x16xf32>, %u: tensor<40x16xf32>) -> tensor<3x40xf32> {
  %0 = lpu_graph.pointwise "mul"(%x, %x) : tensor<3x16xf32>, tensor<3x16xf32> -> tensor<3x16xf32>
  %1 = lpu_graph.reduce "add" %0 dims <[1]> : tensor<3x16xf32> -> tensor<3xf32>
  %2 = lpu_graph.pointwise "rsqrt"(%1) : tensor<3xf32> -> tensor<3xf32>
  %3 = lpu_graph.reshape %2 : tensor<3xf32> -> tensor<3x1xf32>
  %4 = lpu_graph.pointwise "mul"(%x, %3) : tensor<3x16xf32>, tensor<3x1xf32> -> tensor<3x16xf32>
  %5 = lpu_graph.matmul %4, %g transpose [false, true] : tensor<3x16xf32>, tensor<40x16xf32> -> tensor<3x40xf32>
  %6 = lpu_graph.matmul %4, %u transpose [false, true] : tensor<3x16xf32>, tensor<40x16xf32> -> tensor<3x40xf32>
  %7 = lpu_graph.pointwise "sigmoid"(%5) : tensor<3x40xf32> -> tensor<3x40xf32>
  %8 = lpu_graph.pointwise "mul"(%5, %7) : tensor<3x40xf32>, tensor<3x40xf32> -> tensor<3x40xf32>
  %9 = lpu_graph.pointwise "mul"(%8, %6) : tensor<3x40xf32>, tensor<3x40xf32> -> tensor<3x40xf32>
  func.return %9 : tensor<3x40xf32>
}

// A piecewise value read along its pieces joins; one read in a fold over them does not.
// CHECK-LABEL: func.func @pieces(
// CHECK-NEXT:   %[[V0:\d+]] = lpu_loop.empty : tensor<3x6xf32>
// CHECK-NEXT:   %[[V1:\d+]] = lpu_loop.nest [d0 = 3, d1 = 6] outs(%[[V0]] : tensor<3x6xf32>) {
// CHECK-NEXT:     %[[V2:\d+]] = lpu_loop.pieces d1 at [4] : f32 {
// CHECK-NEXT:       %[[V3:\d+]] = lpu_loop.load %x[d0, d1] : tensor<3x4xf32>
// CHECK-NEXT:       lpu_loop.yield %[[V3]] : f32
// CHECK-NEXT:     } {
// CHECK-NEXT:       %[[V4:\d+]] = lpu_loop.load %y[d0, d1 - 4] : tensor<3x2xf32>
// CHECK-NEXT:       lpu_loop.yield %[[V4]] : f32
// CHECK-NEXT:     }
// CHECK-NEXT:     %[[V5:\d+]] = arith.negf %[[V2]] : f32
// CHECK-NEXT:     lpu_loop.store "replace" %[[V5]], %[[V0]][d0, d1] : f32, tensor<3x6xf32>
// CHECK-NEXT:   } -> tensor<3x6xf32>
// CHECK-NEXT:   %[[V6:\d+]] = lpu_loop.empty : tensor<3x6xf32>
// CHECK-NEXT:   %[[V7:\d+]] = lpu_loop.nest [d0 = 3, d1 = 6] outs(%[[V6]] : tensor<3x6xf32>) {
// CHECK-NEXT:     %[[V8:\d+]] = lpu_loop.pieces d1 at [2] : f32 {
// CHECK-NEXT:       %[[V9:\d+]] = lpu_loop.load %y[d0, d1] : tensor<3x2xf32>
// CHECK-NEXT:       lpu_loop.yield %[[V9]] : f32
// CHECK-NEXT:     } {
// CHECK-NEXT:       %[[V10:\d+]] = lpu_loop.load %x[d0, d1 - 2] : tensor<3x4xf32>
// CHECK-NEXT:       lpu_loop.yield %[[V10]] : f32
// CHECK-NEXT:     }
// CHECK-NEXT:     lpu_loop.store "replace" %[[V8]], %[[V6]][d0, d1] : f32, tensor<3x6xf32>
// CHECK-NEXT:   } -> tensor<3x6xf32>
// CHECK-NEXT:   %[[V11:\d+]] = lpu_loop.empty : tensor<3xf32>
// CHECK-NEXT:   %[[V12:\d+]] = lpu_loop.nest [d0 = 3] outs(%[[V11]] : tensor<3xf32>) {
// CHECK-NEXT:     %[[V13:\d+]] = lpu_loop.fold "add" {{\[}}[[R0:r\d+]] = 6] : f32 {
// CHECK-NEXT:       %[[V14:\d+]] = lpu_loop.load %[[V7]][d0, [[R0]]] : tensor<3x6xf32>
// CHECK-NEXT:       lpu_loop.yield %[[V14]] : f32
// CHECK-NEXT:     }
// CHECK-NEXT:     lpu_loop.store "replace" %[[V13]], %[[V11]][d0] : f32, tensor<3xf32>
// CHECK-NEXT:   } -> tensor<3xf32>
// CHECK-NEXT:   func.return %[[V1]], %[[V12]] : tensor<3x6xf32>, tensor<3xf32>
func.func @pieces(%x: tensor<3x4xf32>, %y: tensor<3x2xf32>) -> (tensor<3x6xf32>, tensor<3xf32>) {
  %0 = lpu_graph.concat %x, %y dim 1 : tensor<3x4xf32>, tensor<3x2xf32> -> tensor<3x6xf32>
  %1 = lpu_graph.pointwise "neg"(%0) : tensor<3x6xf32> -> tensor<3x6xf32>
  %2 = lpu_graph.concat %y, %x dim 1 : tensor<3x2xf32>, tensor<3x4xf32> -> tensor<3x6xf32>
  %3 = lpu_graph.reduce "add" %2 dims <[1]> : tensor<3x6xf32> -> tensor<3xf32>
  func.return %1, %3 : tensor<3x6xf32>, tensor<3xf32>
}

// What is read where an index says joins if it is cheap to say where; its check covers all elements.
// CHECK-LABEL: func.func @gathered(
// CHECK-NEXT:   %[[V0:\d+]] = lpu_loop.empty : tensor<3x4xf32>
// CHECK-NEXT:   %[[V1:\d+]] = lpu_loop.nest [d0 = 3, d1 = 4] outs(%[[V0]] : tensor<3x4xf32>) {
// CHECK-NEXT:     %[[V2:\d+]] = lpu_loop.load %i[d0] : tensor<3xi64>
// CHECK-NEXT:     %[[V3:\d+]] = arith.constant 0 : i64
// CHECK-NEXT:     %[[V4:\d+]] = arith.cmpi sge, %[[V2]], %[[V3]] : i64
// CHECK-NEXT:     %[[V5:\d+]] = lpu_loop.index 9 : i64
// CHECK-NEXT:     %[[V6:\d+]] = arith.cmpi slt, %[[V2]], %[[V5]] : i64
// CHECK-NEXT:     %[[V7:\d+]] = arith.andi %[[V4]], %[[V6]] : i1
// CHECK-NEXT:     lpu_loop.check %[[V7]], "IndexError", "index out of range for dimension 0 with size 9"
// CHECK-NEXT:     %[[V8:\d+]] = lpu_loop.load %t[_0, d1](%[[V2]]) : tensor<9x4xf32>
// CHECK-NEXT:     %[[V9:\d+]] = arith.negf %[[V8]] : f32
// CHECK-NEXT:     lpu_loop.store "replace" %[[V9]], %[[V0]][d0, d1] : f32, tensor<3x4xf32>
// CHECK-NEXT:   } -> tensor<3x4xf32>
// CHECK-NEXT:   func.return %[[V1]] : tensor<3x4xf32>
func.func @gathered(%t: tensor<9x4xf32>, %i: tensor<3xi64>) -> tensor<3x4xf32> {
  %0 = lpu_graph.gather %t[%i] dims <[0]> at 0 : tensor<9x4xf32>[tensor<3xi64>] -> tensor<3x4xf32>
  %1 = lpu_graph.pointwise "neg"(%0) : tensor<3x4xf32> -> tensor<3x4xf32>
  func.return %1 : tensor<3x4xf32>
}

// What joins for two loads brings its check once.
// CHECK-LABEL: func.func @gathered_for_two(
// CHECK:          lpu_loop.check %{{.*}}, "IndexError"
// CHECK-NEXT:     %[[V8:\d+]] = lpu_loop.load %t[_0](%{{.*}}) : tensor<9xf32>
// CHECK-NEXT:     %[[V9:\d+]] = math.absf %[[V8]] : f32
// CHECK-NEXT:     %[[V10:\d+]] = arith.negf %[[V8]] : f32
// CHECK-NEXT:     arith.addf %[[V9]], %[[V10]] : f32
func.func @gathered_for_two(%t: tensor<9xf32>, %i: tensor<3xi64>) -> tensor<3xf32> {
  %0 = lpu_graph.gather %t[%i] dims <[0]> at 0 : tensor<9xf32>[tensor<3xi64>] -> tensor<3xf32>
  %1 = lpu_graph.pointwise "abs"(%0) : tensor<3xf32> -> tensor<3xf32>
  %2 = lpu_graph.pointwise "neg"(%0) : tensor<3xf32> -> tensor<3xf32>
  %3 = lpu_graph.pointwise "add"(%1, %2) : tensor<3xf32>, tensor<3xf32> -> tensor<3xf32>
  func.return %3 : tensor<3xf32>
}

// Only part of what is checked is read: the check stays where it covers everything.
// CHECK-LABEL: func.func @partly_read(
// CHECK-NEXT:   %[[V0:\d+]] = lpu_loop.empty : tensor<3x4xf32>
// CHECK-NEXT:   %[[V1:\d+]] = lpu_loop.nest [d0 = 3, d1 = 4] outs(%[[V0]] : tensor<3x4xf32>) {
// CHECK-NEXT:     %[[V2:\d+]] = lpu_loop.load %i[d0] : tensor<3xi64>
// CHECK-NEXT:     %[[V3:\d+]] = arith.constant 0 : i64
// CHECK-NEXT:     %[[V4:\d+]] = arith.cmpi sge, %[[V2]], %[[V3]] : i64
// CHECK-NEXT:     %[[V5:\d+]] = lpu_loop.index 9 : i64
// CHECK-NEXT:     %[[V6:\d+]] = arith.cmpi slt, %[[V2]], %[[V5]] : i64
// CHECK-NEXT:     %[[V7:\d+]] = arith.andi %[[V4]], %[[V6]] : i1
// CHECK-NEXT:     lpu_loop.check %[[V7]], "IndexError", "index out of range for dimension 0 with size 9"
// CHECK-NEXT:     %[[V8:\d+]] = lpu_loop.load %t[_0, d1](%[[V2]]) : tensor<9x4xf32>
// CHECK-NEXT:     lpu_loop.store "replace" %[[V8]], %[[V0]][d0, d1] : f32, tensor<3x4xf32>
// CHECK-NEXT:   } -> tensor<3x4xf32>
// CHECK-NEXT:   %[[V9:\d+]] = lpu_loop.empty : tensor<2x4xf32>
// CHECK-NEXT:   %[[V10:\d+]] = lpu_loop.nest [d0 = 2, d1 = 4] outs(%[[V9]] : tensor<2x4xf32>) {
// CHECK-NEXT:     %[[V11:\d+]] = lpu_loop.load %[[V1]][d0 + 1, d1] : tensor<3x4xf32>
// CHECK-NEXT:     %[[V12:\d+]] = arith.negf %[[V11]] : f32
// CHECK-NEXT:     lpu_loop.store "replace" %[[V12]], %[[V9]][d0, d1] : f32, tensor<2x4xf32>
// CHECK-NEXT:   } -> tensor<2x4xf32>
// CHECK-NEXT:   func.return %[[V10]] : tensor<2x4xf32>
func.func @partly_read(%t: tensor<9x4xf32>, %i: tensor<3xi64>) -> tensor<2x4xf32> {
  %0 = lpu_graph.gather %t[%i] dims <[0]> at 0 : tensor<9x4xf32>[tensor<3xi64>] -> tensor<3x4xf32>
  %1 = lpu_graph.slice %0 starts <[1, 0]> steps <[1, 1]> : tensor<3x4xf32> -> tensor<2x4xf32>
  %2 = lpu_graph.pointwise "neg"(%1) : tensor<2x4xf32> -> tensor<2x4xf32>
  func.return %2 : tensor<2x4xf32>
}

// Symbols are no obstacle.
// CHECK-LABEL: func.func @symbolic(
// CHECK-NEXT:   %[[V0:\d+]] = lpu_loop.empty : tensor<?xf32, #lpu.shape<[s0]>>
// CHECK-NEXT:   %[[V1:\d+]] = lpu_loop.nest [d0 = s0] outs(%[[V0]] : tensor<?xf32, #lpu.shape<[s0]>>) {
// CHECK-NEXT:     %[[V2:\d+]] = lpu_loop.fold "add" {{\[}}[[R0:r\d+]] = 6] : f32 {
// CHECK-NEXT:       %[[V3:\d+]] = lpu_loop.load %x[d0, [[R0]]] : tensor<?x6xf32, #lpu.shape<[s0, 6]>>
// CHECK-NEXT:       %[[V4:\d+]] = math.exp %[[V3]] : f32
// CHECK-NEXT:       lpu_loop.yield %[[V4]] : f32
// CHECK-NEXT:     }
// CHECK-NEXT:     lpu_loop.store "replace" %[[V2]], %[[V0]][d0] : f32, tensor<?xf32, #lpu.shape<[s0]>>
// CHECK-NEXT:   } -> tensor<?xf32, #lpu.shape<[s0]>>
// CHECK-NEXT:   func.return %[[V1]] : tensor<?xf32, #lpu.shape<[s0]>>
func.func @symbolic(%x: tensor<?x6xf32, #lpu.shape<[s0, 6]>>) -> tensor<?xf32, #lpu.shape<[s0]>> attributes {lpu.symbols = [#lpu.symbol<"s0", 1, 64, 8>]} {
  %0 = lpu_graph.pointwise "exp"(%x) : tensor<?x6xf32, #lpu.shape<[s0, 6]>> -> tensor<?x6xf32, #lpu.shape<[s0, 6]>>
  %1 = lpu_graph.reduce "add" %0 dims <[1]> : tensor<?x6xf32, #lpu.shape<[s0, 6]>> -> tensor<?xf32, #lpu.shape<[s0]>>
  func.return %1 : tensor<?xf32, #lpu.shape<[s0]>>
}

// A product goes into the pad that reads it, each element once: the padded tensor is written at once.
// CHECK-LABEL: func.func @padded_product(
// CHECK:        lpu_loop.nest [d0 = 8, d1 = 10]
// CHECK-NOT:    lpu_loop.nest
// CHECK:        lpu_loop.pieces d1 at [1, 9]
// CHECK:        lpu_loop.fold "add"
// CHECK-NOT:    lpu_loop.nest
// CHECK:        func.return
func.func @padded_product(%x: tensor<8x16xf32>, %w: tensor<8x16xf32>) -> tensor<8x10xf32> {
  %0 = lpu_graph.matmul %x, %w transpose [false, true] : tensor<8x16xf32>, tensor<8x16xf32> -> tensor<8x8xf32>
  %1 = lpu_graph.pad %0 low <[0, 1]> value 0.0 : f32 : tensor<8x8xf32> -> tensor<8x10xf32>
  func.return %1 : tensor<8x10xf32>
}

// But not into windows that overlap.
// CHECK-LABEL: func.func @product_in_windows(
// CHECK-COUNT-2: lpu_loop.nest
func.func @product_in_windows(%x: tensor<8x16xf32>, %w: tensor<8x16xf32>) -> tensor<8x6x3xf32> {
  %0 = lpu_graph.matmul %x, %w transpose [false, true] : tensor<8x16xf32>, tensor<8x16xf32> -> tensor<8x8xf32>
  %1 = lpu_graph.windows %0 strides <[1]> dilations <[1]> : tensor<8x8xf32> -> tensor<8x6x3xf32>
  %2 = lpu_graph.pointwise "neg"(%1) : tensor<8x6x3xf32> -> tensor<8x6x3xf32>
  func.return %2 : tensor<8x6x3xf32>
}

// What is computed is not computed again in every window that has it; what only moves is moved.
// CHECK-LABEL: func.func @computed_in_windows(
// CHECK-COUNT-2: lpu_loop.nest
func.func @computed_in_windows(%x: tensor<8x8xf32>) -> tensor<8x6xf32> {
  %0 = lpu_graph.pointwise "neg"(%x) : tensor<8x8xf32> -> tensor<8x8xf32>
  %1 = lpu_graph.windows %0 strides <[1]> dilations <[1]> : tensor<8x8xf32> -> tensor<8x6x3xf32>
  %2 = lpu_graph.reduce "max" %1 dims <[2]> : tensor<8x6x3xf32> -> tensor<8x6xf32>
  func.return %2 : tensor<8x6xf32>
}

// CHECK-LABEL: func.func @computed_in_windows_apart(
// CHECK-COUNT-1: lpu_loop.nest
// CHECK-NOT:     lpu_loop.nest
// CHECK:         func.return
func.func @computed_in_windows_apart(%x: tensor<8x6xf32>) -> tensor<8x2xf32> {
  %0 = lpu_graph.pointwise "neg"(%x) : tensor<8x6xf32> -> tensor<8x6xf32>
  %1 = lpu_graph.windows %0 strides <[3]> dilations <[1]> : tensor<8x6xf32> -> tensor<8x2x3xf32>
  %2 = lpu_graph.reduce "max" %1 dims <[2]> : tensor<8x2x3xf32> -> tensor<8x2xf32>
  func.return %2 : tensor<8x2xf32>
}

// An operand of a product that is read backwards is turned around first.
// CHECK-LABEL: func.func @backwards(
// CHECK:         lpu_loop.load %w[d0, d1, -d2 + 2]
// CHECK:         lpu_loop.nest
// CHECK:           lpu_loop.fold "add"
func.func @backwards(%x: tensor<1x4x9xf32>, %w: tensor<6x4x3xf32>) -> tensor<1x6x7xf32> {
  %0 = lpu_graph.slice %w starts <[0, 0, 2]> steps <[1, 1, -1]> : tensor<6x4x3xf32> -> tensor<6x4x3xf32>
  %1 = lpu_graph.conv %x, %0 strides <[1]> dilations <[1]> groups 1 : tensor<1x4x9xf32>, tensor<6x4x3xf32> -> tensor<1x6x7xf32>
  func.return %1 : tensor<1x6x7xf32>
}
