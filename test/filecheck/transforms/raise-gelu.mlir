// RUN: lpu-opt -p raise-gelu %s | filecheck %s

// x * (1 + erf(x / sqrt(2))) * 0.5
// CHECK-LABEL: func.func @by_erf
// CHECK-NEXT: %0 = lpu_graph.pointwise "gelu"(%x) : tensor<4xf32> -> tensor<4xf32>
// CHECK-NEXT: func.return %0
func.func @by_erf(%x: tensor<4xf32>) -> tensor<4xf32> {
  %r = lpu_graph.full 1.4142135 : f32 : tensor<f32>
  %one = lpu_graph.full 1.0 : f32 : tensor<f32>
  %half = lpu_graph.full 0.5 : f32 : tensor<f32>
  %0 = lpu_graph.pointwise "div"(%x, %r) : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %1 = lpu_graph.pointwise "erf"(%0) : tensor<4xf32> -> tensor<4xf32>
  %2 = lpu_graph.pointwise "add"(%one, %1) : tensor<f32>, tensor<4xf32> -> tensor<4xf32>
  %3 = lpu_graph.pointwise "mul"(%x, %2) : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %4 = lpu_graph.pointwise "mul"(%3, %half) : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  func.return %4 : tensor<4xf32>
}

// CHECK-LABEL: func.func @by_tanh
// CHECK-NEXT: %0 = lpu_graph.pointwise "gelu_tanh"(%x) : tensor<4xf32> -> tensor<4xf32>
// CHECK-NEXT: func.return %0
func.func @by_tanh(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = lpu_graph.full 0.044715 : f32 : tensor<f32>
  %b = lpu_graph.full 0.79788458 : f32 : tensor<f32>
  %one = lpu_graph.full 1.0 : f32 : tensor<f32>
  %half = lpu_graph.full 0.5 : f32 : tensor<f32>
  %0 = lpu_graph.pointwise "mul"(%x, %half) : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %1 = lpu_graph.pointwise "mul"(%x, %x) : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %2 = lpu_graph.pointwise "mul"(%1, %x) : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %3 = lpu_graph.pointwise "mul"(%2, %a) : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %4 = lpu_graph.pointwise "add"(%x, %3) : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %5 = lpu_graph.pointwise "mul"(%4, %b) : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %6 = lpu_graph.pointwise "tanh"(%5) : tensor<4xf32> -> tensor<4xf32>
  %7 = lpu_graph.pointwise "add"(%6, %one) : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %8 = lpu_graph.pointwise "mul"(%0, %7) : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  func.return %8 : tensor<4xf32>
}

// CHECK-LABEL: func.func @quick
// CHECK-NEXT: %0 = lpu_graph.pointwise "quick_gelu"(%x) : tensor<4xf32> -> tensor<4xf32>
// CHECK-NEXT: func.return %0
func.func @quick(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = lpu_graph.full 1.702 : f32 : tensor<f32>
  %0 = lpu_graph.pointwise "mul"(%a, %x) : tensor<f32>, tensor<4xf32> -> tensor<4xf32>
  %1 = lpu_graph.pointwise "sigmoid"(%0) : tensor<4xf32> -> tensor<4xf32>
  %2 = lpu_graph.pointwise "mul"(%x, %1) : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  func.return %2 : tensor<4xf32>
}

// Another constant, another operand, and half precision, in which each step is rounded.
// CHECK-LABEL: func.func @others
// CHECK-NOT: gelu
// CHECK: func.return
func.func @others(%x: tensor<4xf32>, %y: tensor<4xf32>, %h: tensor<4xbf16>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xbf16>) {
  %a = lpu_graph.full 1.7 : f32 : tensor<f32>
  %b = lpu_graph.full 1.702 : f32 : tensor<f32>
  %c = lpu_graph.full 1.702 : bf16 : tensor<bf16>
  %0 = lpu_graph.pointwise "mul"(%a, %x) : tensor<f32>, tensor<4xf32> -> tensor<4xf32>
  %1 = lpu_graph.pointwise "sigmoid"(%0) : tensor<4xf32> -> tensor<4xf32>
  %2 = lpu_graph.pointwise "mul"(%x, %1) : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %3 = lpu_graph.pointwise "mul"(%b, %x) : tensor<f32>, tensor<4xf32> -> tensor<4xf32>
  %4 = lpu_graph.pointwise "sigmoid"(%3) : tensor<4xf32> -> tensor<4xf32>
  %5 = lpu_graph.pointwise "mul"(%y, %4) : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %6 = lpu_graph.pointwise "mul"(%c, %h) : tensor<bf16>, tensor<4xbf16> -> tensor<4xbf16>
  %7 = lpu_graph.pointwise "sigmoid"(%6) : tensor<4xbf16> -> tensor<4xbf16>
  %8 = lpu_graph.pointwise "mul"(%h, %7) : tensor<4xbf16>, tensor<4xbf16> -> tensor<4xbf16>
  func.return %2, %5, %8 : tensor<4xf32>, tensor<4xf32>, tensor<4xbf16>
}
