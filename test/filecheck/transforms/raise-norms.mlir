// RUN: lpu-opt -p raise-norms %s | filecheck %s

// CHECK-LABEL: func.func @rms_norm
// CHECK-NEXT: %0 = lpu_graph.rms_norm %x weight %w rank 1 eps 1.000000e-06 : f32 : tensor<3x8xf32>, tensor<8xf32> -> tensor<3x8xf32>
// CHECK-NEXT: func.return %0
func.func @rms_norm(%x: tensor<3x8xf32>, %w: tensor<8xf32>) -> tensor<3x8xf32> {
  %n = lpu_graph.full 8.0 : f32 : tensor<f32>
  %e = lpu_graph.full 1.0e-6 : f32 : tensor<f32>
  %0 = lpu_graph.pointwise "mul"(%x, %x) : tensor<3x8xf32>, tensor<3x8xf32> -> tensor<3x8xf32>
  %1 = lpu_graph.reduce "add" %0 dims <[1]> : tensor<3x8xf32> -> tensor<3xf32>
  %2 = lpu_graph.reshape %1 : tensor<3xf32> -> tensor<3x1xf32>
  %3 = lpu_graph.pointwise "div"(%2, %n) : tensor<3x1xf32>, tensor<f32> -> tensor<3x1xf32>
  %4 = lpu_graph.pointwise "add"(%3, %e) : tensor<3x1xf32>, tensor<f32> -> tensor<3x1xf32>
  %5 = lpu_graph.pointwise "rsqrt"(%4) : tensor<3x1xf32> -> tensor<3x1xf32>
  %6 = lpu_graph.pointwise "mul"(%x, %5) : tensor<3x8xf32>, tensor<3x1xf32> -> tensor<3x8xf32>
  %7 = lpu_graph.pointwise "mul"(%w, %6) : tensor<8xf32>, tensor<3x8xf32> -> tensor<3x8xf32>
  func.return %7 : tensor<3x8xf32>
}

// The weight is multiplied in half precision, after a rounding.
// CHECK-LABEL: func.func @half
// CHECK-NEXT: %c = lpu_graph.convert %x
// CHECK-NEXT: %0 = lpu_graph.rms_norm %c rank 1 eps 1.000000e-06 : f32 : tensor<3x8xf32> -> tensor<3x8xf32>
// CHECK-NEXT: %1 = lpu_graph.convert %0
// CHECK-NEXT: lpu_graph.pointwise "mul"(%w, %1)
func.func @half(%x: tensor<3x8xbf16>, %w: tensor<8xbf16>) -> tensor<3x8xbf16> {
  %n = lpu_graph.full 8.0 : f32 : tensor<f32>
  %e = lpu_graph.full 1.0e-6 : f32 : tensor<f32>
  %c = lpu_graph.convert %x : tensor<3x8xbf16> -> tensor<3x8xf32>
  %0 = lpu_graph.pointwise "mul"(%c, %c) : tensor<3x8xf32>, tensor<3x8xf32> -> tensor<3x8xf32>
  %1 = lpu_graph.reduce "add" %0 dims <[1]> : tensor<3x8xf32> -> tensor<3xf32>
  %2 = lpu_graph.reshape %1 : tensor<3xf32> -> tensor<3x1xf32>
  %3 = lpu_graph.pointwise "div"(%2, %n) : tensor<3x1xf32>, tensor<f32> -> tensor<3x1xf32>
  %4 = lpu_graph.pointwise "add"(%3, %e) : tensor<3x1xf32>, tensor<f32> -> tensor<3x1xf32>
  %5 = lpu_graph.pointwise "rsqrt"(%4) : tensor<3x1xf32> -> tensor<3x1xf32>
  %6 = lpu_graph.pointwise "mul"(%c, %5) : tensor<3x8xf32>, tensor<3x1xf32> -> tensor<3x8xf32>
  %7 = lpu_graph.convert %6 : tensor<3x8xf32> -> tensor<3x8xbf16>
  %8 = lpu_graph.pointwise "mul"(%w, %7) : tensor<8xbf16>, tensor<3x8xbf16> -> tensor<3x8xbf16>
  func.return %8 : tensor<3x8xbf16>
}

// CHECK-LABEL: func.func @layer_norm
// CHECK-NEXT: %0 = lpu_graph.layer_norm %x weight %w bias %b rank 1 eps 1.000000e-05 : f32 : tensor<3x8xf32> weight tensor<8xf32> bias tensor<8xf32> -> tensor<3x8xf32>
// CHECK-NEXT: func.return %0
func.func @layer_norm(%x: tensor<3x8xf32>, %w: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<3x8xf32> {
  %n = lpu_graph.full 8.0 : f32 : tensor<f32>
  %e = lpu_graph.full 1.0e-5 : f32 : tensor<f32>
  %0 = lpu_graph.reduce "add" %x dims <[1]> : tensor<3x8xf32> -> tensor<3xf32>
  %1 = lpu_graph.reshape %0 : tensor<3xf32> -> tensor<3x1xf32>
  %2 = lpu_graph.pointwise "div"(%1, %n) : tensor<3x1xf32>, tensor<f32> -> tensor<3x1xf32>
  %3 = lpu_graph.pointwise "sub"(%x, %2) : tensor<3x8xf32>, tensor<3x1xf32> -> tensor<3x8xf32>
  %4 = lpu_graph.pointwise "mul"(%3, %3) : tensor<3x8xf32>, tensor<3x8xf32> -> tensor<3x8xf32>
  %5 = lpu_graph.reduce "add" %4 dims <[1]> : tensor<3x8xf32> -> tensor<3xf32>
  %6 = lpu_graph.reshape %5 : tensor<3xf32> -> tensor<3x1xf32>
  %7 = lpu_graph.pointwise "div"(%6, %n) : tensor<3x1xf32>, tensor<f32> -> tensor<3x1xf32>
  %8 = lpu_graph.pointwise "add"(%7, %e) : tensor<3x1xf32>, tensor<f32> -> tensor<3x1xf32>
  %9 = lpu_graph.pointwise "rsqrt"(%8) : tensor<3x1xf32> -> tensor<3x1xf32>
  %10 = lpu_graph.pointwise "mul"(%3, %9) : tensor<3x8xf32>, tensor<3x1xf32> -> tensor<3x8xf32>
  %11 = lpu_graph.pointwise "mul"(%10, %w) : tensor<3x8xf32>, tensor<8xf32> -> tensor<3x8xf32>
  %12 = lpu_graph.pointwise "add"(%11, %b) : tensor<3x8xf32>, tensor<8xf32> -> tensor<3x8xf32>
  func.return %12 : tensor<3x8xf32>
}

// What a backward pass keeps of a norm would be computed again.
// CHECK-LABEL: func.func @statistics
// CHECK-NOT: lpu_graph.rms_norm
// CHECK: func.return
func.func @statistics(%x: tensor<3x8xf32>) -> (tensor<3x8xf32>, tensor<3x1xf32>) {
  %n = lpu_graph.full 8.0 : f32 : tensor<f32>
  %e = lpu_graph.full 1.0e-6 : f32 : tensor<f32>
  %0 = lpu_graph.pointwise "mul"(%x, %x) : tensor<3x8xf32>, tensor<3x8xf32> -> tensor<3x8xf32>
  %1 = lpu_graph.reduce "add" %0 dims <[1]> : tensor<3x8xf32> -> tensor<3xf32>
  %2 = lpu_graph.reshape %1 : tensor<3xf32> -> tensor<3x1xf32>
  %3 = lpu_graph.pointwise "div"(%2, %n) : tensor<3x1xf32>, tensor<f32> -> tensor<3x1xf32>
  %4 = lpu_graph.pointwise "add"(%3, %e) : tensor<3x1xf32>, tensor<f32> -> tensor<3x1xf32>
  %5 = lpu_graph.pointwise "rsqrt"(%4) : tensor<3x1xf32> -> tensor<3x1xf32>
  %6 = lpu_graph.pointwise "mul"(%x, %5) : tensor<3x8xf32>, tensor<3x1xf32> -> tensor<3x8xf32>
  func.return %6, %5 : tensor<3x8xf32>, tensor<3x1xf32>
}

// Not over the last axis, and not a mean. A weight for each row is no part of a norm.
// CHECK-LABEL: func.func @others
// CHECK-NOT: lpu_graph.rms_norm
// CHECK: func.return
func.func @others(%x: tensor<3x8xf32>) -> (tensor<3x8xf32>, tensor<3x8xf32>) {
  %n = lpu_graph.full 3.0 : f32 : tensor<f32>
  %e = lpu_graph.full 1.0e-6 : f32 : tensor<f32>
  %0 = lpu_graph.pointwise "mul"(%x, %x) : tensor<3x8xf32>, tensor<3x8xf32> -> tensor<3x8xf32>
  %1 = lpu_graph.reduce "add" %0 dims <[0]> : tensor<3x8xf32> -> tensor<8xf32>
  %2 = lpu_graph.reshape %1 : tensor<8xf32> -> tensor<1x8xf32>
  %3 = lpu_graph.pointwise "div"(%2, %n) : tensor<1x8xf32>, tensor<f32> -> tensor<1x8xf32>
  %4 = lpu_graph.pointwise "add"(%3, %e) : tensor<1x8xf32>, tensor<f32> -> tensor<1x8xf32>
  %5 = lpu_graph.pointwise "rsqrt"(%4) : tensor<1x8xf32> -> tensor<1x8xf32>
  %6 = lpu_graph.pointwise "mul"(%x, %5) : tensor<3x8xf32>, tensor<1x8xf32> -> tensor<3x8xf32>
  %7 = lpu_graph.pointwise "mul"(%x, %x) : tensor<3x8xf32>, tensor<3x8xf32> -> tensor<3x8xf32>
  %8 = lpu_graph.reduce "add" %7 dims <[1]> : tensor<3x8xf32> -> tensor<3xf32>
  %9 = lpu_graph.reshape %8 : tensor<3xf32> -> tensor<3x1xf32>
  %10 = lpu_graph.pointwise "div"(%9, %n) : tensor<3x1xf32>, tensor<f32> -> tensor<3x1xf32>
  %11 = lpu_graph.pointwise "add"(%10, %e) : tensor<3x1xf32>, tensor<f32> -> tensor<3x1xf32>
  %12 = lpu_graph.pointwise "rsqrt"(%11) : tensor<3x1xf32> -> tensor<3x1xf32>
  %13 = lpu_graph.pointwise "mul"(%x, %12) : tensor<3x8xf32>, tensor<3x1xf32> -> tensor<3x8xf32>
  func.return %6, %13 : tensor<3x8xf32>, tensor<3x8xf32>
}
