// RUN: lpu-opt -p graph-to-loop,hoist-checks --split-input-file %s | filecheck %s

// The index is looked at first, with what it is computed by.  The gather stays and checks nothing.
// CHECK-LABEL: func.func @counter(
// CHECK-NEXT:    %[[E:\S+]] = lpu_loop.empty : tensor<4xi64>
// CHECK-NEXT:    %[[I:\S+]] = lpu_loop.nest [d0 = 4] outs(%[[E]] : tensor<4xi64>) {
// CHECK:         lpu_loop.nest [d0 = 4] outs() {
// CHECK-NEXT:      lpu_loop.load %[[I]][d0] : tensor<4xi64>
// CHECK:           lpu_loop.check %{{\S+}}, "IndexError", "index out of range for dimension 0 with size 8"
// CHECK-NEXT:    }
// CHECK:         lpu_loop.nest [] outs(%{{\S+}} : tensor<i64>) {
// CHECK:         lpu_loop.nest [d0 = 4, d1 = 2] outs(%{{\S+}} : tensor<4x2xf32>) {
// CHECK-NOT:       lpu_loop.check
// CHECK:           lpu_loop.load %x[_0, d1]
// CHECK:         lpu_loop.write_back
func.func @counter(%x: tensor<8x2xf32>, %i: tensor<4xi64>, %n: tensor<i64>) -> tensor<4x2xf32> {
  %m = lpu_graph.pointwise "neg"(%n) : tensor<i64> -> tensor<i64>
  %j = lpu_graph.pointwise "neg"(%i) : tensor<4xi64> -> tensor<4xi64>
  %y = lpu_graph.gather %x[%j] dims <[0]> at 0 : tensor<8x2xf32>[tensor<4xi64>] -> tensor<4x2xf32>
  lpu_graph.write_back %m, %n : tensor<i64>, tensor<i64>
  func.return %y : tensor<4x2xf32>
}

// -----

// Where no argument is changed, everything stays.
// CHECK-LABEL: func.func @nothing_written(
// CHECK:         lpu_loop.nest [d0 = 4, d1 = 2]
// CHECK:           lpu_loop.check
func.func @nothing_written(%x: tensor<8x2xf32>, %i: tensor<4xi64>) -> tensor<4x2xf32> {
  %y = lpu_graph.gather %x[%i] dims <[0]> at 0 : tensor<8x2xf32>[tensor<4xi64>] -> tensor<4x2xf32>
  func.return %y : tensor<4x2xf32>
}

// -----

// Callers check what functions need: once, as both calls pass the same position.
// CHECK-LABEL: func.func @main(
// CHECK-NEXT:    lpu_loop.nest [] outs() {
// CHECK-NEXT:      lpu_loop.load %p[]
// CHECK:           lpu_loop.check
// CHECK-NEXT:    }
// CHECK-NEXT:    func.call @layer
// CHECK-NEXT:    func.call @layer
// CHECK-LABEL: func.func private @layer(
// CHECK-NOT:     lpu_loop.check
func.func @main(%a: tensor<8xf32>, %b: tensor<8xf32>, %v: tensor<f32>, %p: tensor<i64>) {
  func.call @layer(%a, %v, %p) : (tensor<8xf32>, tensor<f32>, tensor<i64>) -> ()
  func.call @layer(%b, %v, %p) : (tensor<8xf32>, tensor<f32>, tensor<i64>) -> ()
  func.return
}
func.func private @layer(%cache: tensor<8xf32>, %v: tensor<f32>, %p: tensor<i64>) {
  %0 = lpu_graph.scatter "replace" %v, %cache[%p] dims <[0]> at 0 : tensor<f32>, tensor<8xf32>[tensor<i64>] -> tensor<8xf32>
  lpu_graph.write_back %0, %cache : tensor<8xf32>, tensor<8xf32>
  func.return
}

// -----

// What a call outside makes is known behind it only; a branch checks when it is taken.
// CHECK-LABEL: func.func @later(
// CHECK:         "lpu.host_call"
// CHECK-NEXT:    lpu_loop.nest [] outs() {
// CHECK:           lpu_loop.check
// CHECK-NEXT:    }
// CHECK-NEXT:    lpu.if
// CHECK:         lpu_loop.nest [] outs(%{{\S+}} : tensor<f32>)
// CHECK-LABEL: func.func private @then(
// CHECK-NEXT:    lpu_loop.nest [] outs() {
// CHECK:           lpu_loop.check
func.func @later(%x: tensor<8xf32>, %n: tensor<i64>, %t: tensor<i1>) -> (tensor<f32>, tensor<f32>) {
  %m = lpu_graph.pointwise "neg"(%n) : tensor<i64> -> tensor<i64>
  %i = "lpu.host_call"(%n) <{overload = "aten.abs.default", arguments = {"0" = #lpu.operand<0>}, reason = "a test"}> : (tensor<i64>) -> tensor<i64>
  %z = lpu.if %t then @then else @then(%x, %n) : tensor<i1>, (tensor<8xf32>, tensor<i64>) -> (tensor<f32>)
  %y = lpu_graph.gather %x[%i] dims <[0]> at 0 : tensor<8xf32>[tensor<i64>] -> tensor<f32>
  lpu_graph.write_back %m, %n : tensor<i64>, tensor<i64>
  func.return %y, %z : tensor<f32>, tensor<f32>
}
func.func private @then(%x: tensor<8xf32>, %i: tensor<i64>) -> tensor<f32> {
  %y = lpu_graph.gather %x[%i] dims <[0]> at 0 : tensor<8xf32>[tensor<i64>] -> tensor<f32>
  func.return %y : tensor<f32>
}

// -----

// Two checks of one condition are one; what it is computed by in the function is computed by the
// caller, and each position by itself.
// CHECK-LABEL: func.func @two(
// CHECK:         %[[I:\S+]] = lpu_loop.nest [] outs(%{{\S+}} : tensor<i64>) {
// CHECK-NEXT:      arith.constant
// CHECK-NEXT:      lpu_loop.load %p[]
// CHECK:         lpu_loop.nest [] outs() {
// CHECK-NEXT:      lpu_loop.load %[[I]][]
// CHECK:           lpu_loop.check
// CHECK-NEXT:    }
// CHECK:         %[[J:\S+]] = lpu_loop.nest [] outs(%{{\S+}} : tensor<i64>) {
// CHECK-NEXT:      arith.constant
// CHECK-NEXT:      lpu_loop.load %q[]
// CHECK:         lpu_loop.nest [] outs() {
// CHECK-NEXT:      lpu_loop.load %[[J]][]
// CHECK:           lpu_loop.check
// CHECK-NEXT:    }
// CHECK-NEXT:    func.call @caches
// CHECK-NEXT:    func.call @caches
// CHECK-LABEL: func.func private @caches(
// CHECK-NOT:     lpu_loop.check
func.func @two(%a: tensor<8xf32>, %b: tensor<8xf32>, %v: tensor<f32>, %p: tensor<i64>, %q: tensor<i64>) {
  func.call @caches(%a, %b, %v, %p) : (tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<i64>) -> ()
  func.call @caches(%b, %a, %v, %q) : (tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<i64>) -> ()
  func.return
}
func.func private @caches(%k: tensor<8xf32>, %l: tensor<8xf32>, %v: tensor<f32>, %p: tensor<i64>) {
  %i = lpu_graph.pointwise "neg"(%p) : tensor<i64> -> tensor<i64>
  %0 = lpu_graph.scatter "replace" %v, %k[%i] dims <[0]> at 0 : tensor<f32>, tensor<8xf32>[tensor<i64>] -> tensor<8xf32>
  %1 = lpu_graph.scatter "replace" %v, %l[%i] dims <[0]> at 0 : tensor<f32>, tensor<8xf32>[tensor<i64>] -> tensor<8xf32>
  lpu_graph.write_back %0, %k : tensor<8xf32>, tensor<8xf32>
  lpu_graph.write_back %1, %l : tensor<8xf32>, tensor<8xf32>
  func.return
}
