func.func @main(%x: tensor<8x16xf32>, %w: tensor<32x16xf32>) -> tensor<8x32xf32> {
  %0 = lpu_graph.matmul %x, %w transpose [false, true] : tensor<8x16xf32>, tensor<32x16xf32> -> tensor<8x32xf32>
  %1 = lpu_graph.pointwise "tanh"(%0) : tensor<8x32xf32> -> tensor<8x32xf32>
  func.return %1 : tensor<8x32xf32>
}
