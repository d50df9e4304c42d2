// RUN: lpu-opt %s | lpu-opt | filecheck %s
// RUN: lpu-opt --print-op-generic %s | lpu-opt | filecheck %s

// A branch and a loop, on tensors; for memrefs see transforms/bufferize-control.mlir.
// CHECK: %r = lpu.if %p then @then else @else(%x) : tensor<i1>, (tensor<4xf32>) -> (tensor<4xf32>)
// CHECK-NEXT: %m, %s = lpu.while @condition do @body(%n, %r) (%x) : (tensor<i64>, tensor<4xf32>), (tensor<4xf32>) -> (tensor<i64>, tensor<4xf32>)
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
