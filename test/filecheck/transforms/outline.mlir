// RUN: lpu-opt -p outline{min-ops=2} --split-input-file %s | filecheck %s

// A value between the layers, a value from before them, a weight for each; the result of the last.
// CHECK-LABEL: func.func @layers
func.func @layers(%x: tensor<4xf32>, %w0: tensor<4xf32>, %w1: tensor<4xf32>, %w2: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: %cos = lpu_graph.pointwise "cos"
  // CHECK-NEXT: %[[A:.*]] = func.call @layer(%x, %w0, %cos)
  // CHECK-NEXT: %[[B:.*]] = func.call @layer(%[[A]], %w1, %cos)
  // CHECK-NEXT: %[[C:.*]] = func.call @layer(%[[B]], %w2, %cos)
  // CHECK-NEXT: %[[D:.*]] = lpu_graph.pointwise "exp"(%[[C]])
  // CHECK-NEXT: func.return %[[D]]
  %cos = lpu_graph.pointwise "cos"(%x) : tensor<4xf32> -> tensor<4xf32>
  %0 = lpu_graph.pointwise "add"(%x, %w0) : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %1 = lpu_graph.pointwise "mul"(%0, %cos) : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %2 = lpu_graph.pointwise "add"(%1, %w1) : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %3 = lpu_graph.pointwise "mul"(%2, %cos) : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %4 = lpu_graph.pointwise "add"(%3, %w2) : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %5 = lpu_graph.pointwise "mul"(%4, %cos) : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %6 = lpu_graph.pointwise "exp"(%5) : tensor<4xf32> -> tensor<4xf32>
  func.return %6 : tensor<4xf32>
}
// CHECK-LABEL: func.func private @layer
// CHECK-SAME: (%[[X:.*]]: tensor<4xf32>, %[[W:.*]]: tensor<4xf32>, %[[COS:.*]]: tensor<4xf32>) -> tensor<4xf32> {
// CHECK-NEXT: %[[S:.*]] = lpu_graph.pointwise "add"(%[[X]], %[[W]])
// CHECK-NEXT: %[[P:.*]] = lpu_graph.pointwise "mul"(%[[S]], %[[COS]])
// CHECK-NEXT: func.return %[[P]]
// CHECK-NOT: func.func

// -----

// A constant is cloned, wherever it stands and whether or not the layers share it; what remains of
// it goes. The third layer has another number in it, and stays.
// CHECK-LABEL: func.func @constants
func.func @constants(%x: tensor<f32>) -> tensor<f32> {
  // CHECK-NEXT: %[[A:.*]] = func.call @layer(%x) : (tensor<f32>) -> tensor<f32>
  // CHECK-NEXT: %[[B:.*]] = func.call @layer(%[[A]]) : (tensor<f32>) -> tensor<f32>
  // CHECK-NEXT: %three = lpu_graph.full 3.0
  // CHECK-NEXT: lpu_graph.pointwise "mul"(%[[B]], %three)
  %two = lpu_graph.full 2.0 : f32 : tensor<f32>
  %0 = lpu_graph.pointwise "mul"(%x, %two) : tensor<f32>, tensor<f32> -> tensor<f32>
  %1 = lpu_graph.pointwise "exp"(%0) : tensor<f32> -> tensor<f32>
  %two_again = lpu_graph.full 2.0 : f32 : tensor<f32>
  %2 = lpu_graph.pointwise "mul"(%1, %two_again) : tensor<f32>, tensor<f32> -> tensor<f32>
  %3 = lpu_graph.pointwise "exp"(%2) : tensor<f32> -> tensor<f32>
  %three = lpu_graph.full 3.0 : f32 : tensor<f32>
  %4 = lpu_graph.pointwise "mul"(%3, %three) : tensor<f32>, tensor<f32> -> tensor<f32>
  %5 = lpu_graph.pointwise "exp"(%4) : tensor<f32> -> tensor<f32>
  func.return %5 : tensor<f32>
}
// CHECK-LABEL: func.func private @layer
// CHECK-NEXT: %[[TWO:.*]] = lpu_graph.full 2.0
// CHECK-NEXT: lpu_graph.pointwise "mul"(%{{.*}}, %[[TWO]])

// -----

// A write-back moves into the layer that makes its value. The counter of the first layer is read
// before the layers, which does not matter; those of the last two are read after the layers, one
// through a view, so their writes stay, and these layers share another function.
// CHECK-LABEL: func.func @write_backs
func.func @write_backs(%x: tensor<i64>, %n0: tensor<i64>, %n1: tensor<i64>, %n2: tensor<i64>, %n3: tensor<i64>) -> (tensor<i64>, tensor<i64>) {
  // CHECK-NEXT: %before = lpu_graph.pointwise "neg"(%n0)
  // CHECK: %[[A:.*]] = func.call @[[SINKS:.*]](%n0, %before)
  // CHECK-NEXT: %[[B:.*]] = func.call @[[SINKS]](%n1, %[[A]])
  // CHECK-NEXT: %[[N2:.*]], %[[C:.*]] = func.call @[[STAYS:.*]](%n2, %[[B]])
  // CHECK-NEXT: %[[N3:.*]], %[[D:.*]] = func.call @[[STAYS]](%n3, %[[C]])
  // CHECK-NEXT: %after = lpu_graph.pointwise "sub"(%n2, %view)
  // CHECK-NEXT: lpu_graph.write_back %[[N2]], %n2
  // CHECK-NEXT: lpu_graph.write_back %[[N3]], %n3
  // CHECK-NEXT: func.return %[[D]], %after
  %before = lpu_graph.pointwise "neg"(%n0) : tensor<i64> -> tensor<i64>
  %view = lpu_graph.reshape %n3 : tensor<i64> -> tensor<i64>
  %0 = lpu_graph.pointwise "abs"(%n0) : tensor<i64> -> tensor<i64>
  %1 = lpu_graph.pointwise "mul"(%0, %before) : tensor<i64>, tensor<i64> -> tensor<i64>
  %2 = lpu_graph.pointwise "abs"(%n1) : tensor<i64> -> tensor<i64>
  %3 = lpu_graph.pointwise "mul"(%2, %1) : tensor<i64>, tensor<i64> -> tensor<i64>
  %4 = lpu_graph.pointwise "abs"(%n2) : tensor<i64> -> tensor<i64>
  %5 = lpu_graph.pointwise "mul"(%4, %3) : tensor<i64>, tensor<i64> -> tensor<i64>
  %6 = lpu_graph.pointwise "abs"(%n3) : tensor<i64> -> tensor<i64>
  %7 = lpu_graph.pointwise "mul"(%6, %5) : tensor<i64>, tensor<i64> -> tensor<i64>
  %after = lpu_graph.pointwise "sub"(%n2, %view) : tensor<i64>, tensor<i64> -> tensor<i64>
  lpu_graph.write_back %0, %n0 : tensor<i64>, tensor<i64>
  lpu_graph.write_back %2, %n1 : tensor<i64>, tensor<i64>
  lpu_graph.write_back %4, %n2 : tensor<i64>, tensor<i64>
  lpu_graph.write_back %6, %n3 : tensor<i64>, tensor<i64>
  func.return %7, %after : tensor<i64>, tensor<i64>
}
// CHECK: func.func private @[[SINKS]](%[[N:.*]]: tensor<i64>, %[[X:.*]]: tensor<i64>) -> tensor<i64> {
// CHECK-NEXT: %[[NEW:.*]] = lpu_graph.pointwise "abs"(%[[N]])
// CHECK-NEXT: %[[Y:.*]] = lpu_graph.pointwise "mul"(%[[NEW]], %[[X]])
// CHECK-NEXT: lpu_graph.write_back %[[NEW]], %[[N]]
// CHECK-NEXT: func.return %[[Y]]
// CHECK: func.func private @[[STAYS]](
// CHECK-NOT: write_back
// CHECK: func.return

// -----

// The symbols that the layers use are declared; taken names are avoided.
// CHECK: func.func @symbols
func.func @symbols(%x: tensor<?xf32, #lpu.shape<[s0]>>, %y: tensor<?xf32, #lpu.shape<[s1]>>) -> tensor<?xf32, #lpu.shape<[s0]>> attributes {lpu.symbols = [#lpu.symbol<"s0", 2, 64, 8>, #lpu.symbol<"s1", 2, 64, 8>]} {
  // CHECK-COUNT-2: func.call @layer_1
  %0 = lpu_graph.pointwise "exp"(%x) : tensor<?xf32, #lpu.shape<[s0]>> -> tensor<?xf32, #lpu.shape<[s0]>>
  %1 = lpu_graph.pointwise "sin"(%0) : tensor<?xf32, #lpu.shape<[s0]>> -> tensor<?xf32, #lpu.shape<[s0]>>
  %2 = lpu_graph.pointwise "exp"(%1) : tensor<?xf32, #lpu.shape<[s0]>> -> tensor<?xf32, #lpu.shape<[s0]>>
  %3 = lpu_graph.pointwise "sin"(%2) : tensor<?xf32, #lpu.shape<[s0]>> -> tensor<?xf32, #lpu.shape<[s0]>>
  func.return %3 : tensor<?xf32, #lpu.shape<[s0]>>
}
func.func private @layer() -> ()
// CHECK: func.func private @layer_1
// CHECK-SAME: attributes {lpu.symbols = [#lpu.symbol<"s0", 2, 64, 8>]}

// -----

// The sum before the first layer is like that at the end of each, so the repetition could start there;
// but between a layer's end and the next one's start only one value crosses.
// CHECK-LABEL: func.func @cut_where_little_crosses
func.func @cut_where_little_crosses(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {
  // CHECK-NEXT: %[[SUM:.*]] = lpu_graph.pointwise "add"(%a, %b)
  // CHECK-NEXT: %[[A:.*]] = func.call @layer(%[[SUM]]) : (tensor<f32>) -> tensor<f32>
  // CHECK-NEXT: %[[B:.*]] = func.call @layer(%[[A]]) : (tensor<f32>) -> tensor<f32>
  // CHECK-NEXT: func.return %[[B]]
  %0 = lpu_graph.pointwise "add"(%a, %b) : tensor<f32>, tensor<f32> -> tensor<f32>
  %1 = lpu_graph.pointwise "exp"(%0) : tensor<f32> -> tensor<f32>
  %2 = lpu_graph.pointwise "sin"(%1) : tensor<f32> -> tensor<f32>
  %3 = lpu_graph.pointwise "add"(%0, %2) : tensor<f32>, tensor<f32> -> tensor<f32>
  %4 = lpu_graph.pointwise "exp"(%3) : tensor<f32> -> tensor<f32>
  %5 = lpu_graph.pointwise "sin"(%4) : tensor<f32> -> tensor<f32>
  %6 = lpu_graph.pointwise "add"(%3, %5) : tensor<f32>, tensor<f32> -> tensor<f32>
  func.return %6 : tensor<f32>
}

// -----

// Equal operations with another dataflow share nothing, nor do those below the minimum.
// CHECK-LABEL: func.func @different
// CHECK-NOT: func.call
func.func @different(%x: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %0 = lpu_graph.pointwise "sub"(%x, %x) : tensor<f32>, tensor<f32> -> tensor<f32>
  %1 = lpu_graph.pointwise "exp"(%0) : tensor<f32> -> tensor<f32>
  %2 = lpu_graph.pointwise "sub"(%x, %1) : tensor<f32>, tensor<f32> -> tensor<f32>
  %3 = lpu_graph.pointwise "exp"(%x) : tensor<f32> -> tensor<f32>
  %4 = lpu_graph.pointwise "sin"(%3) : tensor<f32> -> tensor<f32>
  %5 = lpu_graph.pointwise "sin"(%4) : tensor<f32> -> tensor<f32>
  func.return %2, %5 : tensor<f32>, tensor<f32>
}
