// RUN: lpu-opt -p raise-rope %s | filecheck %s

// CHECK-LABEL: func.func @rope
// CHECK-NEXT: %0 = lpu_graph.rope %x cos %c sin %s : tensor<2x7x12xbf16>, tensor<7x12xbf16>, tensor<7x12xbf16> -> tensor<2x7x12xbf16>
// CHECK-NEXT: func.return %0
func.func @rope(%x: tensor<2x7x12xbf16>, %c: tensor<7x12xbf16>, %s: tensor<7x12xbf16>) -> tensor<2x7x12xbf16> {
  %0 = lpu_graph.pointwise "mul"(%x, %c) : tensor<2x7x12xbf16>, tensor<7x12xbf16> -> tensor<2x7x12xbf16>
  %1 = lpu_graph.slice %x starts <[0, 0, 0]> steps <[1, 1, 1]> : tensor<2x7x12xbf16> -> tensor<2x7x6xbf16>
  %2 = lpu_graph.slice %x starts <[0, 0, 6]> steps <[1, 1, 1]> : tensor<2x7x12xbf16> -> tensor<2x7x6xbf16>
  %3 = lpu_graph.pointwise "neg"(%2) : tensor<2x7x6xbf16> -> tensor<2x7x6xbf16>
  %4 = lpu_graph.concat %3, %1 dim 2 : tensor<2x7x6xbf16>, tensor<2x7x6xbf16> -> tensor<2x7x12xbf16>
  %5 = lpu_graph.pointwise "mul"(%4, %s) : tensor<2x7x12xbf16>, tensor<7x12xbf16> -> tensor<2x7x12xbf16>
  %6 = lpu_graph.pointwise "add"(%0, %5) : tensor<2x7x12xbf16>, tensor<2x7x12xbf16> -> tensor<2x7x12xbf16>
  func.return %6 : tensor<2x7x12xbf16>
}

// Of part of the axis, as in GPT-NeoX: the rest is put beside it.
// CHECK-LABEL: func.func @partial
// CHECK-NEXT: %p = lpu_graph.slice %x starts <[0, 0]>
// CHECK-NEXT: %rest = lpu_graph.slice %x starts <[0, 4]>
// CHECK-NEXT: %0 = lpu_graph.rope %p cos %c sin %s : tensor<7x4xf32>, tensor<7x4xf32>, tensor<7x4xf32> -> tensor<7x4xf32>
// CHECK-NEXT: lpu_graph.concat %0, %rest dim 1
func.func @partial(%x: tensor<7x12xf32>, %c: tensor<7x4xf32>, %s: tensor<7x4xf32>) -> tensor<7x12xf32> {
  %p = lpu_graph.slice %x starts <[0, 0]> steps <[1, 1]> : tensor<7x12xf32> -> tensor<7x4xf32>
  %rest = lpu_graph.slice %x starts <[0, 4]> steps <[1, 1]> : tensor<7x12xf32> -> tensor<7x8xf32>
  %0 = lpu_graph.pointwise "mul"(%p, %c) : tensor<7x4xf32>, tensor<7x4xf32> -> tensor<7x4xf32>
  %1 = lpu_graph.slice %p starts <[0, 0]> steps <[1, 1]> : tensor<7x4xf32> -> tensor<7x2xf32>
  %2 = lpu_graph.slice %p starts <[0, 2]> steps <[1, 1]> : tensor<7x4xf32> -> tensor<7x2xf32>
  %3 = lpu_graph.pointwise "neg"(%2) : tensor<7x2xf32> -> tensor<7x2xf32>
  %4 = lpu_graph.concat %3, %1 dim 1 : tensor<7x2xf32>, tensor<7x2xf32> -> tensor<7x4xf32>
  %5 = lpu_graph.pointwise "mul"(%4, %s) : tensor<7x4xf32>, tensor<7x4xf32> -> tensor<7x4xf32>
  %6 = lpu_graph.pointwise "add"(%0, %5) : tensor<7x4xf32>, tensor<7x4xf32> -> tensor<7x4xf32>
  %7 = lpu_graph.concat %6, %rest dim 1 : tensor<7x4xf32>, tensor<7x8xf32> -> tensor<7x12xf32>
  func.return %7 : tensor<7x12xf32>
}

// The first half is negated; the halves are not equal; they are of another value.
// CHECK-LABEL: func.func @others
// CHECK-NOT: lpu_graph.rope
// CHECK: func.return
func.func @others(%x: tensor<7x12xf32>, %y: tensor<7x12xf32>, %c: tensor<7x12xf32>) -> (tensor<7x12xf32>, tensor<7x12xf32>, tensor<7x12xf32>) {
  %0 = lpu_graph.pointwise "mul"(%x, %c) : tensor<7x12xf32>, tensor<7x12xf32> -> tensor<7x12xf32>
  %1 = lpu_graph.slice %x starts <[0, 0]> steps <[1, 1]> : tensor<7x12xf32> -> tensor<7x6xf32>
  %2 = lpu_graph.slice %x starts <[0, 6]> steps <[1, 1]> : tensor<7x12xf32> -> tensor<7x6xf32>
  %3 = lpu_graph.pointwise "neg"(%1) : tensor<7x6xf32> -> tensor<7x6xf32>
  %4 = lpu_graph.concat %2, %3 dim 1 : tensor<7x6xf32>, tensor<7x6xf32> -> tensor<7x12xf32>
  %5 = lpu_graph.pointwise "mul"(%4, %c) : tensor<7x12xf32>, tensor<7x12xf32> -> tensor<7x12xf32>
  %6 = lpu_graph.pointwise "add"(%0, %5) : tensor<7x12xf32>, tensor<7x12xf32> -> tensor<7x12xf32>
  %7 = lpu_graph.slice %x starts <[0, 0]> steps <[1, 1]> : tensor<7x12xf32> -> tensor<7x4xf32>
  %8 = lpu_graph.slice %x starts <[0, 4]> steps <[1, 1]> : tensor<7x12xf32> -> tensor<7x8xf32>
  %9 = lpu_graph.pointwise "neg"(%8) : tensor<7x8xf32> -> tensor<7x8xf32>
  %10 = lpu_graph.concat %9, %7 dim 1 : tensor<7x8xf32>, tensor<7x4xf32> -> tensor<7x12xf32>
  %11 = lpu_graph.pointwise "mul"(%10, %c) : tensor<7x12xf32>, tensor<7x12xf32> -> tensor<7x12xf32>
  %12 = lpu_graph.pointwise "add"(%0, %11) : tensor<7x12xf32>, tensor<7x12xf32> -> tensor<7x12xf32>
  %13 = lpu_graph.pointwise "neg"(%2) : tensor<7x6xf32> -> tensor<7x6xf32>
  %14 = lpu_graph.concat %13, %1 dim 1 : tensor<7x6xf32>, tensor<7x6xf32> -> tensor<7x12xf32>
  %15 = lpu_graph.pointwise "mul"(%14, %c) : tensor<7x12xf32>, tensor<7x12xf32> -> tensor<7x12xf32>
  %16 = lpu_graph.pointwise "mul"(%y, %c) : tensor<7x12xf32>, tensor<7x12xf32> -> tensor<7x12xf32>
  %17 = lpu_graph.pointwise "add"(%16, %15) : tensor<7x12xf32>, tensor<7x12xf32> -> tensor<7x12xf32>
  func.return %6, %12, %17 : tensor<7x12xf32>, tensor<7x12xf32>, tensor<7x12xf32>
}
