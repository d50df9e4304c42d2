// RUN: lpu-opt -p 'graph-to-loop,bufferize,loop-to-kernel{target="tiny"}' --split-input-file %s | filecheck %s

// One loop over chunks of positions carries the largest score, the weighted sum and the sum of the
// weights of a row; keys and values are read once. The cores share rows, not columns.
// CHECK:      lpu_kernel.kernel @attention_0({{.*}} cores 2 {
// CHECK-NEXT:   lpu_kernel.phase cores(%[[C:.*]]) {
// CHECK-NEXT:     %[[M0:.*]] = lpu_kernel.fill 0xff800000 : f32 [1] -> !lpu_kernel.tile<1xf32>
// CHECK-NEXT:     %[[A0:.*]] = lpu_kernel.fill 0.000000e+00 : f32 [1, 4] -> !lpu_kernel.tile<1x4xf32>
// CHECK-NEXT:     %[[L0:.*]] = lpu_kernel.fill 0.000000e+00 : f32 [1] -> !lpu_kernel.tile<1xf32>
// CHECK-NEXT:     %[[Q:.*]] = lpu_kernel.load %{{.*}}[%[[C]], 0] [1, 8]
// CHECK-NEXT:     %[[M3:.*]], %[[A3:.*]], %[[L3:.*]] = lpu_kernel.for reduction %[[I:.*]] = 0 to 2000 step 500 iter_args(%[[M1:.*]] = %[[M0]], %[[A1:.*]] = %[[A0]], %[[L1:.*]] = %[[L0]])
// CHECK-NEXT:       %[[K:.*]] = lpu_kernel.load %{{.*}}[%[[I]], 0] [500, 8]
// CHECK-NEXT:       %[[S:.*]] = lpu_kernel.contract %[[Q]] as [0, 2], %[[K]] as [1, 2]
// CHECK-NEXT:       %[[M2:.*]] = lpu_kernel.fold max %[[S]] [1] acc(%[[M1]] : !lpu_kernel.tile<1xf32>)
// CHECK-NEXT:       %[[B:.*]] = lpu_kernel.map [1] at [%[[C]]] ins(%[[M2]] as [0]
// CHECK:              arith.select
// CHECK:            %[[P:.*]] = lpu_kernel.map [1, 500] at [%[[C]], %[[I]]] ins(%[[S]] as [0, 1], %[[B]] as [0]
// CHECK:              arith.subf
// CHECK-NEXT:         math.exp
// CHECK:            %[[F:.*]] = lpu_kernel.map [1] at [%[[C]]] ins(%[[M1]] as [0], %[[M2]] as [0]
// CHECK:              math.exp
// CHECK:            %[[A2:.*]] = lpu_kernel.map [1, 4] at [%[[C]], 0] ins(%[[A1]] as [0, 1], %[[F]] as [0]
// CHECK:            %[[L2:.*]] = lpu_kernel.map [1] at [%[[C]]] ins(%[[L1]] as [0], %[[F]] as [0]
// CHECK:            %[[V:.*]] = lpu_kernel.load %{{.*}}[%[[I]], 0] [500, 4]
// CHECK-NEXT:       %[[A:.*]] = lpu_kernel.contract %[[P]] as [0, 2], %[[V]] as [2, 1] acc(%[[A2]]
// CHECK-NEXT:       %[[L:.*]] = lpu_kernel.fold add %[[P]] [1] acc(%[[L2]]
// CHECK-NEXT:       lpu_kernel.yield %[[M2]], %[[A]], %[[L]]
// CHECK:          lpu_kernel.map [1, 4] at [%[[C]], 0] ins(%[[A3]] as [0, 1], %[[L3]] as [0]
func.func @attention(%q: tensor<2x8xf32>, %k: tensor<2000x8xf32>, %v: tensor<2000x4xf32>) -> tensor<2x4xf32> {
  %0 = lpu_graph.attention %q, %k, %v : tensor<2x8xf32>, tensor<2000x8xf32>, tensor<2000x4xf32>, () -> tensor<2x4xf32> {
  ^bb0(%s: tensor<f32>):
    lpu_graph.yield %s : tensor<f32>
  }
  func.return %0 : tensor<2x4xf32>
}

// -----

// Everything in one chunk: nothing is carried, and nothing corrected. The cores share the heads of a
// group, who all have the same keys.
// CHECK:      lpu_kernel.kernel @grouped_0({{.*}} cores 3 {
// CHECK-NOT:    lpu_kernel.for
// CHECK:        lpu_kernel.load %{{.*}}[0, %{{.*}}, 0] [2, 1, 8]
// CHECK:        lpu_kernel.load %{{.*}}[0, 0, 0] [2, 5, 8]
// CHECK:        %[[S:.*]] = lpu_kernel.contract
// CHECK-NEXT:   lpu_kernel.fold max %[[S]]
// CHECK:        %[[P:.*]] = lpu_kernel.map [2, 1, 5]
// CHECK:        lpu_kernel.contract %[[P]]
// CHECK-NEXT:   lpu_kernel.fold add %[[P]]
// CHECK-NOT:    math.exp
// CHECK:        lpu_kernel.store
func.func @grouped(%q: tensor<6x1x8xf32>, %k: tensor<2x5x8xf32>) -> tensor<6x1x8xf32> {
  %0 = lpu_graph.reshape %k : tensor<2x5x8xf32> -> tensor<2x1x5x8xf32>
  %1 = lpu_graph.broadcast %0 : tensor<2x1x5x8xf32> -> tensor<2x3x5x8xf32>
  %2 = lpu_graph.reshape %1 : tensor<2x3x5x8xf32> -> tensor<6x5x8xf32>
  %3 = lpu_graph.attention %q, %2, %2 : tensor<6x1x8xf32>, tensor<6x5x8xf32>, tensor<6x5x8xf32>, () -> tensor<6x1x8xf32> {
  ^bb0(%s: tensor<f32>):
    lpu_graph.yield %s : tensor<f32>
  }
  func.return %3 : tensor<6x1x8xf32>
}

// -----

// The sum of a softmax's exponentials is made with its largest element.
// CHECK:      lpu_kernel.kernel @softmax_0(
// CHECK:        lpu_kernel.for reduction {{.*}} iter_args(
// CHECK-NEXT:     lpu_kernel.load
// CHECK-NEXT:     lpu_kernel.fold max
// CHECK:          lpu_kernel.fold add
// CHECK-NEXT:     lpu_kernel.yield
// CHECK:        lpu_kernel.for parallel
// CHECK:          math.exp
func.func @softmax(%x: tensor<4x2000xf32>) -> tensor<4x2000xf32> {
  %0 = lpu_graph.softmax %x dim 1 : tensor<4x2000xf32> -> tensor<4x2000xf32>
  func.return %0 : tensor<4x2000xf32>
}

// -----

// A row in one tile: what its exponentials are divided by is known, and they are there.
// CHECK:      lpu_kernel.kernel @row_0({{.*}} cores 2 {
// CHECK:        %[[P:.*]] = lpu_kernel.map [1, 500]
// CHECK:          math.exp
// CHECK:        %[[L:.*]] = lpu_kernel.fold add %[[P]] [1]
// CHECK-NOT:    math.exp
// CHECK:        lpu_kernel.map [1, 500] at [%{{.*}}, 0] ins(%[[P]] as [0, 1], %[[L]] as [0]
func.func @row(%x: tensor<2x500xf32>) -> tensor<2x500xf32> {
  %0 = lpu_graph.softmax %x dim 1 : tensor<2x500xf32> -> tensor<2x500xf32>
  func.return %0 : tensor<2x500xf32>
}

// -----

// Half precision: weights are rounded after the division, so that their sum comes first.
// CHECK:      lpu_kernel.kernel @rounded_0(
// CHECK:        lpu_kernel.for reduction {{.*}} iter_args(
// CHECK:          lpu_kernel.fold max
// CHECK:          lpu_kernel.fold add
// CHECK:        lpu_kernel.for reduction {{.*}} iter_args(
// CHECK:          arith.divf
// CHECK-NEXT:     arith.truncf
// CHECK:          lpu_kernel.contract
func.func @rounded(%q: tensor<2x8xbf16>, %k: tensor<2000x8xbf16>, %v: tensor<2000x4xbf16>) -> tensor<2x4xbf16> {
  %0 = lpu_graph.attention %q, %k, %v : tensor<2x8xbf16>, tensor<2000x8xbf16>, tensor<2000x4xbf16>, () -> tensor<2x4xbf16> {
  ^bb0(%s: tensor<bf16>):
    %1 = lpu_graph.convert %s : tensor<bf16> -> tensor<f32>
    lpu_graph.yield %1 : tensor<f32>
  }
  func.return %0 : tensor<2x4xbf16>
}
