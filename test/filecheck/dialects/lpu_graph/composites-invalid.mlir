// RUN: lpu-opt --split-input-file --verify-diagnostics --parsing-diagnostics %s | filecheck %s

%x = "test.op"() : () -> (tensor<3x8xbf16>)
// CHECK: is computed in f32 or f64, got bf16
%0 = lpu_graph.softmax %x dim 1 : tensor<3x8xbf16> -> tensor<3x8xbf16>

// -----

%x = "test.op"() : () -> (tensor<3x8xf32>)
// CHECK: dim [2] must be distinct and in [0, 2)
%0 = lpu_graph.log_softmax %x dim 2 : tensor<3x8xf32> -> tensor<3x8xf32>

// -----

%x = "test.op"() : () -> (tensor<3x8xf32>)
// CHECK: weight or bias has extents [3, 8], expected [8]
%0 = lpu_graph.rms_norm %x weight %x rank 1 eps 1.0e-6 : f32 : tensor<3x8xf32>, tensor<3x8xf32> -> tensor<3x8xf32>

// -----

%x = "test.op"() : () -> (tensor<3x8xf32>)
// CHECK: normalises 3 of 2 axes
%0 = lpu_graph.layer_norm %x rank 3 eps 1.0e-5 : f32 : tensor<3x8xf32> -> tensor<3x8xf32>

// -----

%x = "test.op"() : () -> (tensor<3x8xf32>)
// CHECK: eps is f64, expected f32
%0 = lpu_graph.layer_norm %x rank 1 eps 1.0e-5 : f64 : tensor<3x8xf32> -> tensor<3x8xf32>

// -----

%x = "test.op"() : () -> (tensor<3x7xf32>)
// CHECK: the last extent must be known and even
%0 = lpu_graph.rope %x cos %x sin %x : tensor<3x7xf32>, tensor<3x7xf32>, tensor<3x7xf32> -> tensor<3x7xf32>

// -----

%x, %c = "test.op"() : () -> (tensor<1x8xf32>, tensor<3x8xf32>)
// CHECK: factor is tensor<3x8xf32>, which does not broadcast to [1, 8]
%0 = lpu_graph.rope %x cos %c sin %c : tensor<1x8xf32>, tensor<3x8xf32>, tensor<3x8xf32> -> tensor<1x8xf32>

// -----

%q, %k = "test.op"() : () -> (tensor<4x7x8xf32>, tensor<2x9x8xf32>)
// CHECK: key has extents [2, 9, 8], expected [4, 9, 8]
%0 = lpu_graph.attention %q, %k, %k : tensor<4x7x8xf32>, tensor<2x9x8xf32>, tensor<2x9x8xf32>, () -> tensor<4x7x8xf32> {
^bb0(%s: tensor<f32>):
  lpu_graph.yield %s : tensor<f32>
}

// -----

%q, %m = "test.op"() : () -> (tensor<7x8xf32>, tensor<6x7xf32>)
// CHECK: operand of the score is tensor<6x7xf32>, which does not broadcast to [7, 7]
%0 = lpu_graph.attention %q, %q, %q with %m : tensor<7x8xf32>, tensor<7x8xf32>, tensor<7x8xf32>, (tensor<6x7xf32>) -> tensor<7x8xf32> {
^bb0(%s: tensor<f32>, %a: tensor<f32>):
  lpu_graph.yield %s : tensor<f32>
}

// -----

%q = "test.op"() : () -> (tensor<7x8xf32>)
// CHECK: region arguments are (tensor<f64>), not (tensor<f32>)
%0 = lpu_graph.attention %q, %q, %q : tensor<7x8xf32>, tensor<7x8xf32>, tensor<7x8xf32>, () -> tensor<7x8xf32> {
^bb0(%s: tensor<f64>):
  lpu_graph.yield %s : tensor<f64>
}

// -----

%q = "test.op"() : () -> (tensor<7x8xbf16>)
// CHECK: the region yields (tensor<bf16>), expected an f32 or f64
%0 = lpu_graph.attention %q, %q, %q : tensor<7x8xbf16>, tensor<7x8xbf16>, tensor<7x8xbf16>, () -> tensor<7x8xbf16> {
^bb0(%s: tensor<bf16>):
  lpu_graph.yield %s : tensor<bf16>
}

// -----

%q = "test.op"() : () -> (tensor<7x8xf32>)
// CHECK: lpu_graph.transpose in the region, expected full, pointwise or convert
%0 = lpu_graph.attention %q, %q, %q : tensor<7x8xf32>, tensor<7x8xf32>, tensor<7x8xf32>, () -> tensor<7x8xf32> {
^bb0(%s: tensor<f32>):
  %1 = lpu_graph.transpose %s <[]> : tensor<f32> -> tensor<f32>
  lpu_graph.yield %1 : tensor<f32>
}
