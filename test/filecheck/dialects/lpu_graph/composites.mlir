// RUN: lpu-opt %s | lpu-opt | filecheck %s
// RUN: lpu-opt --print-op-generic %s | lpu-opt | filecheck %s

// CHECK: %x, %w, %c = "test.op"() : () -> (tensor<3x8xf32>, tensor<8xf32>, tensor<1x8xf32>)
%x, %w, %c = "test.op"() : () -> (tensor<3x8xf32>, tensor<8xf32>, tensor<1x8xf32>)
// CHECK-NEXT: %q, %k, %v, %m = "test.op"() : () -> (tensor<4x7x8xbf16>, tensor<4x9x8xbf16>, tensor<4x9x6xbf16>, tensor<7x9xi1>)
%q, %k, %v, %m = "test.op"() : () -> (tensor<4x7x8xbf16>, tensor<4x9x8xbf16>, tensor<4x9x6xbf16>, tensor<7x9xi1>)

// CHECK-NEXT: %0 = lpu_graph.softmax %x dim 1 : tensor<3x8xf32> -> tensor<3x8xf32>
%0 = lpu_graph.softmax %x dim 1 : tensor<3x8xf32> -> tensor<3x8xf32>
// CHECK-NEXT: %1 = lpu_graph.log_softmax %x dim 0 : tensor<3x8xf32> -> tensor<3x8xf32>
%1 = lpu_graph.log_softmax %x dim 0 : tensor<3x8xf32> -> tensor<3x8xf32>
// CHECK-NEXT: %2 = lpu_graph.rms_norm %x rank 1 eps 1.000000e-06 : f32 : tensor<3x8xf32> -> tensor<3x8xf32>
%2 = lpu_graph.rms_norm %x rank 1 eps 1.0e-6 : f32 : tensor<3x8xf32> -> tensor<3x8xf32>
// CHECK-NEXT: %3 = lpu_graph.rms_norm %x weight %w rank 1 eps 1.000000e-06 : f32 : tensor<3x8xf32>, tensor<8xf32> -> tensor<3x8xf32>
%3 = lpu_graph.rms_norm %x weight %w rank 1 eps 1.0e-6 : f32 : tensor<3x8xf32>, tensor<8xf32> -> tensor<3x8xf32>
// CHECK-NEXT: %4 = lpu_graph.layer_norm %x weight %w bias %w rank 1 eps 1.000000e-05 : f32 : tensor<3x8xf32> weight tensor<8xf32> bias tensor<8xf32> -> tensor<3x8xf32>
%4 = lpu_graph.layer_norm %x weight %w bias %w rank 1 eps 1.0e-5 : f32 : tensor<3x8xf32> weight tensor<8xf32> bias tensor<8xf32> -> tensor<3x8xf32>
// CHECK-NEXT: %5 = lpu_graph.layer_norm %x bias %x rank 2 eps 1.000000e-05 : f32 : tensor<3x8xf32> bias tensor<3x8xf32> -> tensor<3x8xf32>
%5 = lpu_graph.layer_norm %x bias %x rank 2 eps 1.0e-5 : f32 : tensor<3x8xf32> bias tensor<3x8xf32> -> tensor<3x8xf32>
// CHECK-NEXT: %6 = lpu_graph.rope %x cos %c sin %w : tensor<3x8xf32>, tensor<1x8xf32>, tensor<8xf32> -> tensor<3x8xf32>
%6 = lpu_graph.rope %x cos %c sin %w : tensor<3x8xf32>, tensor<1x8xf32>, tensor<8xf32> -> tensor<3x8xf32>
// CHECK-NEXT: %7 = lpu_graph.pointwise "gelu"(%x) : tensor<3x8xf32> -> tensor<3x8xf32>
%7 = lpu_graph.pointwise "gelu"(%x) : tensor<3x8xf32> -> tensor<3x8xf32>

// CHECK-NEXT: %8 = lpu_graph.attention safe %q, %k, %v with %m : tensor<4x7x8xbf16>, tensor<4x9x8xbf16>, tensor<4x9x6xbf16>, (tensor<7x9xi1>) -> tensor<4x7x6xbf16> {
// CHECK-NEXT: ^bb0(%{{.*}}: tensor<bf16>, %{{.*}}: tensor<i1>):
%8 = lpu_graph.attention safe %q, %k, %v with %m : tensor<4x7x8xbf16>, tensor<4x9x8xbf16>, tensor<4x9x6xbf16>, (tensor<7x9xi1>) -> tensor<4x7x6xbf16> {
^bb0(%s: tensor<bf16>, %b: tensor<i1>):
  // CHECK-NEXT: %{{.*}} = lpu_graph.full 0xff80 : bf16 : tensor<bf16>
  %inf = lpu_graph.full 0xff80 : bf16 : tensor<bf16>
  // CHECK-NEXT: lpu_graph.pointwise "select"
  %t = lpu_graph.pointwise "select"(%b, %s, %inf) : tensor<i1>, tensor<bf16>, tensor<bf16> -> tensor<bf16>
  // CHECK-NEXT: lpu_graph.convert
  %f = lpu_graph.convert %t : tensor<bf16> -> tensor<f32>
  // CHECK-NEXT: lpu_graph.yield %{{.*}} : tensor<f32>
  lpu_graph.yield %f : tensor<f32>
}
// CHECK: %9 = lpu_graph.attention %x, %x, %x : tensor<3x8xf32>, tensor<3x8xf32>, tensor<3x8xf32>, () -> tensor<3x8xf32> {
%9 = lpu_graph.attention %x, %x, %x : tensor<3x8xf32>, tensor<3x8xf32>, tensor<3x8xf32>, () -> tensor<3x8xf32> {
^bb0(%s: tensor<f32>):
  lpu_graph.yield %s : tensor<f32>
}
