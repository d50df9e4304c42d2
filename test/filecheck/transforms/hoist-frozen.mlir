// RUN: lpu-opt -p hoist-frozen --split-input-file %s | filecheck %s

// A normalisation by running statistics: two vectors are kept, the views of them stay.
// CHECK-LABEL: func.func @main(%x: tensor<2x4x9xf32>, %mean: tensor<4xf32> {lpu.frozen}, %var: tensor<4xf32> {lpu.frozen}, %scale: tensor<4xf32>, %shift: tensor<4xf32>) -> tensor<2x4x9xf32> {
// CHECK-NEXT:    %0 = lpu_graph.reshape %scale
// CHECK-NEXT:    %1 = lpu_graph.reshape %shift
// CHECK-NEXT:    %2 = lpu_graph.pointwise "mul"(%x, %0)
// CHECK-NEXT:    %3 = lpu_graph.pointwise "add"(%2, %1)
// CHECK-NEXT:    func.return %3
// CHECK:       func.func @freeze(%mean: tensor<4xf32>, %var: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) attributes {lpu.frozen = #lpu.ints<[1, 2]>} {
// CHECK-NEXT:    %scale = lpu_graph.pointwise "rsqrt"(%var)
// CHECK-NEXT:    %0 = lpu_graph.pointwise "mul"(%mean, %scale)
// CHECK-NEXT:    %shift = lpu_graph.pointwise "neg"(%0)
// CHECK-NEXT:    func.return %scale, %shift
func.func @main(%x: tensor<2x4x9xf32>, %mean: tensor<4xf32> {lpu.frozen}, %var: tensor<4xf32> {lpu.frozen}) -> tensor<2x4x9xf32> {
  %scale = lpu_graph.pointwise "rsqrt"(%var) : tensor<4xf32> -> tensor<4xf32>
  %0 = lpu_graph.pointwise "mul"(%mean, %scale) : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %shift = lpu_graph.pointwise "neg"(%0) : tensor<4xf32> -> tensor<4xf32>
  %1 = lpu_graph.reshape %scale : tensor<4xf32> -> tensor<4x1xf32>
  %2 = lpu_graph.reshape %shift : tensor<4xf32> -> tensor<4x1xf32>
  %3 = lpu_graph.pointwise "mul"(%x, %1) : tensor<2x4x9xf32>, tensor<4x1xf32> -> tensor<2x4x9xf32>
  %4 = lpu_graph.pointwise "add"(%3, %2) : tensor<2x4x9xf32>, tensor<4x1xf32> -> tensor<2x4x9xf32>
  func.return %4 : tensor<2x4x9xf32>
}

// -----

// Without marks there is nothing to do.
// CHECK-LABEL: func.func @main(%x: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
// CHECK-NEXT:    %0 = lpu_graph.pointwise "exp"(%w)
// CHECK-NOT:   @freeze
func.func @main(%x: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
  %0 = lpu_graph.pointwise "exp"(%w) : tensor<4xf32> -> tensor<4xf32>
  %1 = lpu_graph.pointwise "add"(%x, %0) : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  func.return %1 : tensor<4xf32>
}

// -----

// A narrower weight is kept; strides go along.
// CHECK-LABEL: func.func @main
// CHECK-SAME:  %0: tensor<4x8xbf16>) -> tensor<2x8xbf16>
// CHECK-NEXT:    lpu_graph.matmul %x, %0
// CHECK:       func.func @freeze(%w: tensor<4x8xf32> {lpu.strides = #lpu.shape<[1, 4]>}) -> tensor<4x8xbf16>
// CHECK-NEXT:    lpu_graph.convert %w
func.func @main(%x: tensor<2x4xbf16>, %w: tensor<4x8xf32> {lpu.frozen, lpu.strides = #lpu.shape<[1, 4]>}) -> tensor<2x8xbf16> {
  %0 = lpu_graph.convert %w : tensor<4x8xf32> -> tensor<4x8xbf16>
  %1 = lpu_graph.matmul %x, %0 transpose [false, false] : tensor<2x4xbf16>, tensor<4x8xbf16> -> tensor<2x8xbf16>
  func.return %1 : tensor<2x8xbf16>
}

// -----

// A weight that was rounded is kept narrow: to widen it costs nothing.
// CHECK-LABEL: func.func @main
// CHECK-SAME:  %0: tensor<4x8xbf16>) -> tensor<2x8xf32>
// CHECK-NEXT:    %1 = lpu_graph.convert %0
// CHECK-NEXT:    lpu_graph.matmul %x, %1
// CHECK:       func.func @freeze
func.func @main(%x: tensor<2x4xf32>, %w: tensor<4x8xf32> {lpu.frozen}) -> tensor<2x8xf32> {
  %0 = lpu_graph.convert %w : tensor<4x8xf32> -> tensor<4x8xbf16>
  %1 = lpu_graph.convert %0 : tensor<4x8xbf16> -> tensor<4x8xf32>
  %2 = lpu_graph.matmul %x, %1 transpose [false, false] : tensor<2x4xf32>, tensor<4x8xf32> -> tensor<2x8xf32>
  func.return %2 : tensor<2x8xf32>
}

// -----

// A wider one would take longer to read than to compute; a transpose is a view.
// CHECK-LABEL: func.func @main
// CHECK:         lpu_graph.convert %w
// CHECK:         lpu_graph.transpose %u
// CHECK-NOT:   @freeze
func.func @main(%x: tensor<2x4xf32>, %w: tensor<4x8xbf16> {lpu.frozen}, %u: tensor<2x8xf32> {lpu.frozen}) -> tensor<2x2xf32> {
  %0 = lpu_graph.convert %w : tensor<4x8xbf16> -> tensor<4x8xf32>
  %1 = lpu_graph.matmul %x, %0 transpose [false, false] : tensor<2x4xf32>, tensor<4x8xf32> -> tensor<2x8xf32>
  %2 = lpu_graph.transpose %u <[1, 0]> : tensor<2x8xf32> -> tensor<8x2xf32>
  %3 = lpu_graph.matmul %1, %2 transpose [false, false] : tensor<2x8xf32>, tensor<8x2xf32> -> tensor<2x2xf32>
  func.return %3 : tensor<2x2xf32>
}

// -----

// What is too large stays, and reads what is kept of its operands.
// CHECK-LABEL: func.func @main
// CHECK-SAME:  %0: tensor<4x1xf32>, %1: tensor<8xf32>)
// CHECK-NEXT:    lpu_graph.pointwise "mul"(%0, %1)
// CHECK:       func.func @freeze(%a: tensor<4x1xf32>, %b: tensor<8xf32>)
// CHECK-NEXT:    lpu_graph.pointwise "exp"(%a)
// CHECK-NEXT:    lpu_graph.pointwise "exp"(%b)
// CHECK-NEXT:    func.return
func.func @main(%x: tensor<4x8xf32>, %a: tensor<4x1xf32> {lpu.frozen}, %b: tensor<8xf32> {lpu.frozen}) -> tensor<4x8xf32> {
  %0 = lpu_graph.pointwise "exp"(%a) : tensor<4x1xf32> -> tensor<4x1xf32>
  %1 = lpu_graph.pointwise "exp"(%b) : tensor<8xf32> -> tensor<8xf32>
  %2 = lpu_graph.pointwise "mul"(%0, %1) : tensor<4x1xf32>, tensor<8xf32> -> tensor<4x8xf32>
  %3 = lpu_graph.pointwise "add"(%x, %2) : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
  func.return %3 : tensor<4x8xf32>
}

// -----

// A product is never fused into one that reads it: it is kept though it is larger.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    lpu_graph.matmul %x, %0
// CHECK:       func.func @freeze
// CHECK-NEXT:    lpu_graph.matmul %a, %b
func.func @main(%x: tensor<2x8xf32>, %a: tensor<8x1xf32> {lpu.frozen}, %b: tensor<1x8xf32> {lpu.frozen}) -> tensor<2x8xf32> {
  %0 = lpu_graph.matmul %a, %b transpose [false, false] : tensor<8x1xf32>, tensor<1x8xf32> -> tensor<8x8xf32>
  %1 = lpu_graph.matmul %x, %0 transpose [false, false] : tensor<2x8xf32>, tensor<8x8xf32> -> tensor<2x8xf32>
  func.return %1 : tensor<2x8xf32>
}

// -----

// A table of cosines that many read is kept, through views; the same for one reader is not.
// CHECK-LABEL: func.func @main
// CHECK-SAME:  %cos: tensor<16x4xf32>)
// CHECK-NEXT:    lpu_graph.iota
// CHECK-NEXT:    lpu_graph.convert
// CHECK-NEXT:    lpu_graph.pointwise "mul"
// CHECK-NEXT:    lpu_graph.pointwise "sin"
// CHECK-NEXT:    lpu_graph.reshape %cos
// CHECK:       func.func @freeze
// CHECK-NEXT:    lpu_graph.iota
// CHECK-NEXT:    lpu_graph.convert
// CHECK-NEXT:    lpu_graph.pointwise "mul"
// CHECK-NEXT:    %cos = lpu_graph.pointwise "cos"
// CHECK-NEXT:    func.return %cos
func.func @main(%x: tensor<16x4xf32>, %f: tensor<4xf32> {lpu.frozen}) -> tensor<16x4xf32> {
  %0 = lpu_graph.iota 0 : tensor<16x1xi64>
  %1 = lpu_graph.convert %0 : tensor<16x1xi64> -> tensor<16x1xf32>
  %2 = lpu_graph.pointwise "mul"(%1, %f) : tensor<16x1xf32>, tensor<4xf32> -> tensor<16x4xf32>
  %cos = lpu_graph.pointwise "cos"(%2) : tensor<16x4xf32> -> tensor<16x4xf32>
  %sin = lpu_graph.pointwise "sin"(%2) : tensor<16x4xf32> -> tensor<16x4xf32>
  %3 = lpu_graph.reshape %cos : tensor<16x4xf32> -> tensor<1x16x4xf32>
  %4 = lpu_graph.reshape %3 : tensor<1x16x4xf32> -> tensor<16x4xf32>
  %5 = lpu_graph.pointwise "mul"(%x, %4) : tensor<16x4xf32>, tensor<16x4xf32> -> tensor<16x4xf32>
  %6 = lpu_graph.pointwise "mul"(%5, %4) : tensor<16x4xf32>, tensor<16x4xf32> -> tensor<16x4xf32>
  %7 = lpu_graph.pointwise "mul"(%6, %cos) : tensor<16x4xf32>, tensor<16x4xf32> -> tensor<16x4xf32>
  %8 = lpu_graph.pointwise "mul"(%7, %sin) : tensor<16x4xf32>, tensor<16x4xf32> -> tensor<16x4xf32>
  func.return %8 : tensor<16x4xf32>
}

// -----

// Rows of a table are read either way; by indices that are frozen, too, they are kept.
// CHECK-LABEL: func.func @main
// CHECK-SAME:  %0: tensor<4x8xf32>)
// CHECK-NEXT:    %1 = lpu_graph.iota
// CHECK-NEXT:    %2 = lpu_graph.gather %t[%1]
// CHECK:       func.func @freeze
// CHECK-NEXT:    lpu_graph.gather %t[%i]
// CHECK-NEXT:    func.return
func.func @main(%x: tensor<4x8xf32>, %t: tensor<96x8xf32> {lpu.frozen}, %i: tensor<4xi64> {lpu.frozen}) -> tensor<4x8xf32> {
  %0 = lpu_graph.iota 0 : tensor<4xi64>
  %1 = lpu_graph.gather %t[%0] dims <[0]> at 0 : tensor<96x8xf32>[tensor<4xi64>] -> tensor<4x8xf32>
  %2 = lpu_graph.gather %t[%i] dims <[0]> at 0 : tensor<96x8xf32>[tensor<4xi64>] -> tensor<4x8xf32>
  %3 = lpu_graph.pointwise "add"(%x, %1) : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
  %4 = lpu_graph.pointwise "add"(%3, %2) : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
  func.return %4 : tensor<4x8xf32>
}

// -----

// Of a slice only its own bytes are read: less than the result has.
// CHECK-LABEL: func.func @main
// CHECK-NOT:   @freeze
func.func @main(%x: tensor<4xf64>, %w: tensor<64xf32> {lpu.frozen}) -> tensor<4xf64> {
  %0 = lpu_graph.slice %w starts <[8]> steps <[1]> : tensor<64xf32> -> tensor<4xf32>
  %1 = lpu_graph.convert %0 : tensor<4xf32> -> tensor<4xf64>
  %2 = lpu_graph.pointwise "add"(%x, %1) : tensor<4xf64>, tensor<4xf64> -> tensor<4xf64>
  func.return %2 : tensor<4xf64>
}

// -----

// Two that compute the same share it.
// CHECK-LABEL: func.func @main
// CHECK-SAME:  (%x: tensor<4xf32>, %w: tensor<4xf32> {lpu.frozen}, %0: tensor<4xf32>) -> tensor<4xf32>
// CHECK-NEXT:    %1 = lpu_graph.pointwise "add"(%x, %0)
// CHECK-NEXT:    %2 = lpu_graph.pointwise "mul"(%1, %0)
// CHECK-NEXT:    func.return %2
func.func @main(%x: tensor<4xf32>, %w: tensor<4xf32> {lpu.frozen}) -> tensor<4xf32> {
  %one = lpu_graph.full 1.0 : f32 : tensor<f32>
  %0 = lpu_graph.pointwise "add"(%w, %one) : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %1 = lpu_graph.pointwise "add"(%x, %0) : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %also = lpu_graph.full 1.0 : f32 : tensor<f32>
  %2 = lpu_graph.pointwise "add"(%w, %also) : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %3 = lpu_graph.pointwise "mul"(%1, %2) : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  func.return %3 : tensor<4xf32>
}

// -----

// Layers that view the same value stay equal: each keeps its view, also of what each computes anew.
// CHECK-LABEL: func.func @main
// CHECK-SAME:  (%x: tensor<4x2xf32>, %w: tensor<4xf32> {lpu.frozen}, %0: tensor<4xf32>) -> tensor<4x2xf32>
// CHECK-NEXT:    %1 = lpu_graph.reshape %0
// CHECK-NEXT:    %2 = lpu_graph.pointwise "mul"(%x, %1)
// CHECK-NEXT:    %3 = lpu_graph.reshape %0
// CHECK-NEXT:    %4 = lpu_graph.pointwise "mul"(%2, %3)
// CHECK-NEXT:    func.return %4
func.func @main(%x: tensor<4x2xf32>, %w: tensor<4xf32> {lpu.frozen}) -> tensor<4x2xf32> {
  %0 = lpu_graph.pointwise "exp"(%w) : tensor<4xf32> -> tensor<4xf32>
  %1 = lpu_graph.reshape %0 : tensor<4xf32> -> tensor<4x1xf32>
  %2 = lpu_graph.pointwise "mul"(%x, %1) : tensor<4x2xf32>, tensor<4x1xf32> -> tensor<4x2xf32>
  %3 = lpu_graph.pointwise "exp"(%w) : tensor<4xf32> -> tensor<4xf32>
  %4 = lpu_graph.reshape %3 : tensor<4xf32> -> tensor<4x1xf32>
  %5 = lpu_graph.pointwise "mul"(%2, %4) : tensor<4x2xf32>, tensor<4x1xf32> -> tensor<4x2xf32>
  func.return %5 : tensor<4x2xf32>
}

// -----

// Host calls stay where they are, and so does what they give and what numbers alone determine.
// CHECK-LABEL: func.func @main
// CHECK:         lpu.host_call
// CHECK:         lpu_graph.pointwise "exp"
// CHECK:         lpu_graph.full
// CHECK-NOT:   @freeze
func.func @main(%x: tensor<4xf32>, %w: tensor<4xf32> {lpu.frozen}) -> tensor<4xf32> {
  %0 = "lpu.host_call"(%w) <{overload = "aten.bernoulli.default", arguments = {"0" = #lpu.operand<0>}, reason = "random"}> : (tensor<4xf32>) -> tensor<4xf32>
  %1 = lpu_graph.pointwise "exp"(%0) : tensor<4xf32> -> tensor<4xf32>
  %2 = lpu_graph.full 2.0 : f32 : tensor<4xf32>
  %3 = lpu_graph.pointwise "sqrt"(%2) : tensor<4xf32> -> tensor<4xf32>
  %4 = lpu_graph.pointwise "add"(%1, %3) : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %5 = lpu_graph.pointwise "add"(%x, %4) : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  func.return %5 : tensor<4xf32>
}

// -----

// Extents may be others at the next call.
// CHECK-LABEL: func.func @main
// CHECK:         lpu_graph.reduce
// CHECK-NOT:   @freeze
func.func @main(%x: tensor<?xf32, #lpu.shape<[s0]>>, %w: tensor<4xf32> {lpu.frozen}) -> tensor<?xf32, #lpu.shape<[s0]>> attributes {lpu.symbols = [#lpu.symbol<"s0", 2, -1, 8>]} {
  %0 = lpu_graph.reshape %w : tensor<4xf32> -> tensor<4x1xf32>
  %1 = lpu_graph.broadcast %0 : tensor<4x1xf32> -> tensor<4x?xf32, #lpu.shape<[4, s0]>>
  %2 = lpu_graph.reduce "add" %1 dims <[0]> : tensor<4x?xf32, #lpu.shape<[4, s0]>> -> tensor<?xf32, #lpu.shape<[s0]>>
  %3 = lpu_graph.pointwise "add"(%x, %2) : tensor<?xf32, #lpu.shape<[s0]>>, tensor<?xf32, #lpu.shape<[s0]>> -> tensor<?xf32, #lpu.shape<[s0]>>
  func.return %3 : tensor<?xf32, #lpu.shape<[s0]>>
}

// -----

// Only @main has such arguments.
// CHECK-LABEL: func.func @other
// CHECK-NEXT:    lpu_graph.pointwise "exp"(%w)
// CHECK-NOT:   @freeze
func.func @other(%x: tensor<4xf32>, %w: tensor<4xf32> {lpu.frozen}) -> tensor<4xf32> {
  %0 = lpu_graph.pointwise "exp"(%w) : tensor<4xf32> -> tensor<4xf32>
  %1 = lpu_graph.pointwise "add"(%x, %0) : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  func.return %1 : tensor<4xf32>
}
