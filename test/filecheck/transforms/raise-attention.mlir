// RUN: lpu-opt -p raise-attention %s | filecheck %s

// A scale and a mask; the product has fewer leading axes than the score.
// CHECK-LABEL: func.func @masked
// CHECK-NEXT:    %[[Q:.*]] = lpu_graph.reshape %q : tensor<4x7x12xf32> -> tensor<1x4x7x12xf32>
// CHECK-NEXT:    %[[K:.*]] = lpu_graph.reshape %k : tensor<4x9x12xf32> -> tensor<1x4x9x12xf32>
// CHECK-NEXT:    %[[V:.*]] = lpu_graph.reshape %v : tensor<4x9x16xf32> -> tensor<1x4x9x16xf32>
// CHECK-NEXT:    %[[A:.*]] = lpu_graph.attention %[[Q]], %[[K]], %[[V]] with %m : tensor<1x4x7x12xf32>, tensor<1x4x9x12xf32>, tensor<1x4x9x16xf32>, (tensor<1x1x7x9xf32>) -> tensor<1x4x7x16xf32> {
// CHECK-NEXT:    ^bb0(%[[S:.*]]: tensor<f32>, %[[M:.*]]: tensor<f32>):
// CHECK-NEXT:      %[[C:.*]] = lpu_graph.full 2.500000e-01 : f32 : tensor<f32>
// CHECK-NEXT:      %[[T:.*]] = lpu_graph.pointwise "mul"(%[[S]], %[[C]])
// CHECK-NEXT:      %[[U:.*]] = lpu_graph.pointwise "add"(%[[T]], %[[M]])
// CHECK-NEXT:      lpu_graph.yield %[[U]] : tensor<f32>
// CHECK-NEXT:    }
// CHECK-NEXT:    %[[R:.*]] = lpu_graph.reshape %[[A]] : tensor<1x4x7x16xf32> -> tensor<4x7x16xf32>
// CHECK-NEXT:    func.return %[[R]]
func.func @masked(%q: tensor<4x7x12xf32>, %k: tensor<4x9x12xf32>, %v: tensor<4x9x16xf32>, %m: tensor<1x1x7x9xf32>) -> tensor<4x7x16xf32> {
  %c = lpu_graph.full 0.25 : f32 : tensor<f32>
  %0 = lpu_graph.matmul %q, %k transpose [false, true] : tensor<4x7x12xf32>, tensor<4x9x12xf32> -> tensor<4x7x9xf32>
  %1 = lpu_graph.reshape %0 : tensor<4x7x9xf32> -> tensor<1x4x7x9xf32>
  %2 = lpu_graph.pointwise "mul"(%1, %c) : tensor<1x4x7x9xf32>, tensor<f32> -> tensor<1x4x7x9xf32>
  %3 = lpu_graph.pointwise "add"(%2, %m) : tensor<1x4x7x9xf32>, tensor<1x1x7x9xf32> -> tensor<1x4x7x9xf32>
  %4 = lpu_graph.softmax %3 dim 3 : tensor<1x4x7x9xf32> -> tensor<1x4x7x9xf32>
  %5 = lpu_graph.reshape %4 : tensor<1x4x7x9xf32> -> tensor<4x7x9xf32>
  %6 = lpu_graph.matmul %5, %v transpose [false, false] : tensor<4x7x9xf32>, tensor<4x9x16xf32> -> tensor<4x7x16xf32>
  func.return %6 : tensor<4x7x16xf32>
}

// Rows of which every score is -inf are 0.
// CHECK-LABEL: func.func @safe
// CHECK-NEXT:    %{{.*}} = lpu_graph.attention safe %q, %k, %v with %m : tensor<7x12xf32>, tensor<9x12xf32>, tensor<9x16xf32>, (tensor<7x9xf32>) -> tensor<7x16xf32> {
// CHECK-NEXT:    ^bb0
// CHECK-NEXT:      lpu_graph.pointwise "add"
// CHECK-NEXT:      lpu_graph.yield
// CHECK-NEXT:    }
// CHECK-NEXT:    func.return
func.func @safe(%q: tensor<7x12xf32>, %k: tensor<9x12xf32>, %v: tensor<9x16xf32>, %m: tensor<7x9xf32>) -> tensor<7x16xf32> {
  %inf = lpu_graph.full 0xff800000 : f32 : tensor<f32>
  %zero = lpu_graph.full 0.0 : f32 : tensor<7x9xf32>
  %0 = lpu_graph.matmul %q, %k transpose [false, true] : tensor<7x12xf32>, tensor<9x12xf32> -> tensor<7x9xf32>
  %1 = lpu_graph.pointwise "add"(%0, %m) : tensor<7x9xf32>, tensor<7x9xf32> -> tensor<7x9xf32>
  %2 = lpu_graph.softmax %1 dim 1 : tensor<7x9xf32> -> tensor<7x9xf32>
  %3 = lpu_graph.pointwise "eq"(%1, %inf) : tensor<7x9xf32>, tensor<f32> -> tensor<7x9xi1>
  %4 = lpu_graph.pointwise "not"(%3) : tensor<7x9xi1> -> tensor<7x9xi1>
  %5 = lpu_graph.reduce "or" %4 dims <[1]> : tensor<7x9xi1> -> tensor<7xi1>
  %6 = lpu_graph.reshape %5 : tensor<7xi1> -> tensor<7x1xi1>
  %7 = lpu_graph.pointwise "not"(%6) : tensor<7x1xi1> -> tensor<7x1xi1>
  %8 = lpu_graph.pointwise "select"(%7, %zero, %2) : tensor<7x1xi1>, tensor<7x9xf32>, tensor<7x9xf32> -> tensor<7x9xf32>
  %9 = lpu_graph.matmul %8, %v transpose [false, false] : tensor<7x9xf32>, tensor<9x16xf32> -> tensor<7x16xf32>
  func.return %9 : tensor<7x16xf32>
}

// Half precision: conversions are part of the score; the keys and values are stored transposed.
// CHECK-LABEL: func.func @half
// CHECK-NEXT:    %[[K:.*]] = lpu_graph.transpose %k <[1, 0]> : tensor<12x9xbf16> -> tensor<9x12xbf16>
// CHECK-NEXT:    %[[V:.*]] = lpu_graph.transpose %v <[1, 0]> : tensor<16x9xbf16> -> tensor<9x16xbf16>
// CHECK-NEXT:    lpu_graph.attention %q, %[[K]], %[[V]] : tensor<7x12xbf16>, tensor<9x12xbf16>, tensor<9x16xbf16>, () -> tensor<7x16xbf16> {
// CHECK-NEXT:    ^bb0(%[[S:.*]]: tensor<bf16>):
// CHECK-NEXT:      lpu_graph.pointwise "tanh"(%[[S]])
// CHECK-NEXT:      lpu_graph.convert
// CHECK-NEXT:      lpu_graph.yield %{{.*}} : tensor<f32>
func.func @half(%q: tensor<7x12xbf16>, %k: tensor<12x9xbf16>, %v: tensor<16x9xbf16>) -> tensor<7x16xbf16> {
  %0 = lpu_graph.matmul %q, %k transpose [false, false] : tensor<7x12xbf16>, tensor<12x9xbf16> -> tensor<7x9xbf16>
  %1 = lpu_graph.pointwise "tanh"(%0) : tensor<7x9xbf16> -> tensor<7x9xbf16>
  %2 = lpu_graph.convert %1 : tensor<7x9xbf16> -> tensor<7x9xf32>
  %3 = lpu_graph.softmax %2 dim 1 : tensor<7x9xf32> -> tensor<7x9xf32>
  %4 = lpu_graph.convert %3 : tensor<7x9xf32> -> tensor<7x9xbf16>
  %5 = lpu_graph.matmul %4, %v transpose [false, true] : tensor<7x9xbf16>, tensor<16x9xbf16> -> tensor<7x16xbf16>
  func.return %5 : tensor<7x16xbf16>
}

// The weights are needed by themselves, as by a backward pass.
// CHECK-LABEL: func.func @weights_returned
// CHECK-NOT: lpu_graph.attention
// CHECK: func.return
func.func @weights_returned(%q: tensor<7x12xf32>, %k: tensor<9x12xf32>, %v: tensor<9x16xf32>) -> (tensor<7x16xf32>, tensor<7x9xf32>) {
  %0 = lpu_graph.matmul %q, %k transpose [false, true] : tensor<7x12xf32>, tensor<9x12xf32> -> tensor<7x9xf32>
  %1 = lpu_graph.softmax %0 dim 1 : tensor<7x9xf32> -> tensor<7x9xf32>
  %2 = lpu_graph.matmul %1, %v transpose [false, false] : tensor<7x9xf32>, tensor<9x16xf32> -> tensor<7x16xf32>
  func.return %2, %1 : tensor<7x16xf32>, tensor<7x9xf32>
}

// Not a softmax of a product; along the rows; of a product that is rearranged meanwhile; without
// positions, where the result is 0 and no softmax would say so.
// CHECK-LABEL: func.func @others
// CHECK-NOT: lpu_graph.attention
// CHECK: func.return
func.func @others(%x: tensor<9x9xf32>, %v: tensor<9x16xf32>, %e: tensor<9x0xf32>, %f: tensor<0x9xf32>) -> (tensor<9x16xf32>, tensor<9x16xf32>, tensor<9x16xf32>, tensor<9x9xf32>) {
  %0 = lpu_graph.softmax %x dim 1 : tensor<9x9xf32> -> tensor<9x9xf32>
  %1 = lpu_graph.matmul %0, %v transpose [false, false] : tensor<9x9xf32>, tensor<9x16xf32> -> tensor<9x16xf32>
  %2 = lpu_graph.matmul %x, %x transpose [false, true] : tensor<9x9xf32>, tensor<9x9xf32> -> tensor<9x9xf32>
  %3 = lpu_graph.softmax %2 dim 0 : tensor<9x9xf32> -> tensor<9x9xf32>
  %4 = lpu_graph.matmul %3, %v transpose [false, false] : tensor<9x9xf32>, tensor<9x16xf32> -> tensor<9x16xf32>
  %5 = lpu_graph.matmul %x, %x transpose [false, false] : tensor<9x9xf32>, tensor<9x9xf32> -> tensor<9x9xf32>
  %6 = lpu_graph.transpose %5 <[1, 0]> : tensor<9x9xf32> -> tensor<9x9xf32>
  %7 = lpu_graph.softmax %6 dim 1 : tensor<9x9xf32> -> tensor<9x9xf32>
  %8 = lpu_graph.matmul %7, %v transpose [false, false] : tensor<9x9xf32>, tensor<9x16xf32> -> tensor<9x16xf32>
  %9 = lpu_graph.matmul %x, %e transpose [false, false] : tensor<9x9xf32>, tensor<9x0xf32> -> tensor<9x0xf32>
  %10 = lpu_graph.softmax %9 dim 1 : tensor<9x0xf32> -> tensor<9x0xf32>
  %11 = lpu_graph.matmul %10, %f transpose [false, false] : tensor<9x0xf32>, tensor<0x9xf32> -> tensor<9x9xf32>
  func.return %1, %4, %8, %11 : tensor<9x16xf32>, tensor<9x16xf32>, tensor<9x16xf32>, tensor<9x9xf32>
}
