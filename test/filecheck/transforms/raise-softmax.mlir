// RUN: lpu-opt -p raise-softmax %s | filecheck %s

// CHECK-LABEL: func.func @softmax
// CHECK-NEXT: %0 = lpu_graph.softmax %x dim 1 : tensor<3x4xf32> -> tensor<3x4xf32>
// CHECK-NEXT: func.return %0
func.func @softmax(%x: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %0 = lpu_graph.reduce "max" %x dims <[1]> : tensor<3x4xf32> -> tensor<3xf32>
  %1 = lpu_graph.reshape %0 : tensor<3xf32> -> tensor<3x1xf32>
  %2 = lpu_graph.pointwise "sub"(%x, %1) : tensor<3x4xf32>, tensor<3x1xf32> -> tensor<3x4xf32>
  %3 = lpu_graph.pointwise "exp"(%2) : tensor<3x4xf32> -> tensor<3x4xf32>
  %4 = lpu_graph.reduce "add" %3 dims <[1]> : tensor<3x4xf32> -> tensor<3xf32>
  %5 = lpu_graph.reshape %4 : tensor<3xf32> -> tensor<3x1xf32>
  %6 = lpu_graph.pointwise "div"(%3, %5) : tensor<3x4xf32>, tensor<3x1xf32> -> tensor<3x4xf32>
  func.return %6 : tensor<3x4xf32>
}

// CHECK-LABEL: func.func @log_softmax
// CHECK-NEXT: %0 = lpu_graph.log_softmax %x dim 0 : tensor<3x4xf32> -> tensor<3x4xf32>
// CHECK-NEXT: func.return %0
func.func @log_softmax(%x: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %0 = lpu_graph.reduce "max" %x dims <[0]> : tensor<3x4xf32> -> tensor<4xf32>
  %1 = lpu_graph.reshape %0 : tensor<4xf32> -> tensor<1x4xf32>
  %2 = lpu_graph.pointwise "sub"(%x, %1) : tensor<3x4xf32>, tensor<1x4xf32> -> tensor<3x4xf32>
  %3 = lpu_graph.pointwise "exp"(%2) : tensor<3x4xf32> -> tensor<3x4xf32>
  %4 = lpu_graph.reduce "add" %3 dims <[0]> : tensor<3x4xf32> -> tensor<4xf32>
  %5 = lpu_graph.reshape %4 : tensor<4xf32> -> tensor<1x4xf32>
  %6 = lpu_graph.pointwise "log"(%5) : tensor<1x4xf32> -> tensor<1x4xf32>
  %7 = lpu_graph.pointwise "sub"(%2, %6) : tensor<3x4xf32>, tensor<1x4xf32> -> tensor<3x4xf32>
  func.return %7 : tensor<3x4xf32>
}

// Rows along different axes.
// CHECK-LABEL: func.func @mixed_axes
// CHECK-NOT: lpu_graph.softmax
// CHECK: func.return
func.func @mixed_axes(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = lpu_graph.reduce "max" %x dims <[1]> : tensor<4x4xf32> -> tensor<4xf32>
  %1 = lpu_graph.reshape %0 : tensor<4xf32> -> tensor<4x1xf32>
  %2 = lpu_graph.pointwise "sub"(%x, %1) : tensor<4x4xf32>, tensor<4x1xf32> -> tensor<4x4xf32>
  %3 = lpu_graph.pointwise "exp"(%2) : tensor<4x4xf32> -> tensor<4x4xf32>
  %4 = lpu_graph.reduce "add" %3 dims <[0]> : tensor<4x4xf32> -> tensor<4xf32>
  %5 = lpu_graph.reshape %4 : tensor<4xf32> -> tensor<1x4xf32>
  %6 = lpu_graph.pointwise "div"(%3, %5) : tensor<4x4xf32>, tensor<1x4xf32> -> tensor<4x4xf32>
  func.return %6 : tensor<4x4xf32>
}

// The exponentials are needed by themselves.
// CHECK-LABEL: func.func @other_readers
// CHECK-NOT: lpu_graph.softmax
// CHECK: func.return
func.func @other_readers(%x: tensor<3x4xf32>) -> (tensor<3x4xf32>, tensor<3x4xf32>) {
  %0 = lpu_graph.reduce "max" %x dims <[1]> : tensor<3x4xf32> -> tensor<3xf32>
  %1 = lpu_graph.reshape %0 : tensor<3xf32> -> tensor<3x1xf32>
  %2 = lpu_graph.pointwise "sub"(%x, %1) : tensor<3x4xf32>, tensor<3x1xf32> -> tensor<3x4xf32>
  %3 = lpu_graph.pointwise "exp"(%2) : tensor<3x4xf32> -> tensor<3x4xf32>
  %4 = lpu_graph.reduce "add" %3 dims <[1]> : tensor<3x4xf32> -> tensor<3xf32>
  %5 = lpu_graph.reshape %4 : tensor<3xf32> -> tensor<3x1xf32>
  %6 = lpu_graph.pointwise "div"(%3, %5) : tensor<3x4xf32>, tensor<3x1xf32> -> tensor<3x4xf32>
  func.return %6, %3 : tensor<3x4xf32>, tensor<3x4xf32>
}

// In half precision each step is rounded.
// CHECK-LABEL: func.func @half
// CHECK-NOT: lpu_graph.softmax
// CHECK: func.return
func.func @half(%x: tensor<3x4xbf16>) -> tensor<3x4xbf16> {
  %0 = lpu_graph.reduce "max" %x dims <[1]> : tensor<3x4xbf16> -> tensor<3xbf16>
  %1 = lpu_graph.reshape %0 : tensor<3xbf16> -> tensor<3x1xbf16>
  %2 = lpu_graph.pointwise "sub"(%x, %1) : tensor<3x4xbf16>, tensor<3x1xbf16> -> tensor<3x4xbf16>
  %3 = lpu_graph.pointwise "exp"(%2) : tensor<3x4xbf16> -> tensor<3x4xbf16>
  %4 = lpu_graph.reduce "add" %3 dims <[1]> : tensor<3x4xbf16> -> tensor<3xbf16>
  %5 = lpu_graph.reshape %4 : tensor<3xbf16> -> tensor<3x1xbf16>
  %6 = lpu_graph.pointwise "div"(%3, %5) : tensor<3x4xbf16>, tensor<3x1xbf16> -> tensor<3x4xbf16>
  func.return %6 : tensor<3x4xbf16>
}

// Not the largest of the same values: not even a softmax.
// CHECK-LABEL: func.func @other_shift
// CHECK-NOT: lpu_graph.softmax
// CHECK: func.return
func.func @other_shift(%x: tensor<3x4xf32>, %y: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %0 = lpu_graph.reduce "max" %y dims <[1]> : tensor<3x4xf32> -> tensor<3xf32>
  %1 = lpu_graph.reshape %0 : tensor<3xf32> -> tensor<3x1xf32>
  %2 = lpu_graph.pointwise "sub"(%x, %1) : tensor<3x4xf32>, tensor<3x1xf32> -> tensor<3x4xf32>
  %3 = lpu_graph.pointwise "exp"(%2) : tensor<3x4xf32> -> tensor<3x4xf32>
  %4 = lpu_graph.reduce "add" %3 dims <[1]> : tensor<3x4xf32> -> tensor<3xf32>
  %5 = lpu_graph.reshape %4 : tensor<3xf32> -> tensor<3x1xf32>
  %6 = lpu_graph.pointwise "div"(%3, %5) : tensor<3x4xf32>, tensor<3x1xf32> -> tensor<3x4xf32>
  func.return %6 : tensor<3x4xf32>
}
