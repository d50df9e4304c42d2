// symbols s0 = 0, 1, 2, 9, 70
// approximate
!x = tensor<?x6xf32, #lpu.shape<[s0, 6]>>
!v = tensor<?xf32, #lpu.shape<[s0]>>
func.func @symbolic_rms(%x: !x) -> (!x) attributes {lpu.symbols = [#lpu.symbol<"s0", 0, 256, 9>]} {
  %0 = lpu_graph.pointwise "mul"(%x, %x) : !x, !x -> !x
  %1 = lpu_graph.reduce "add" %0 dims <[1]> : !x -> !v
  %2 = lpu_graph.pointwise "rsqrt"(%1) : !v -> !v
  %3 = lpu_graph.reshape %2 : !v -> tensor<?x1xf32, #lpu.shape<[s0, 1]>>
  %4 = lpu_graph.pointwise "mul"(%x, %3) : !x, tensor<?x1xf32, #lpu.shape<[s0, 1]>> -> !x
  func.return %4 : !x
}

// -----

// symbols s0 = 0, 1, 2, 9, 70
!x = tensor<?x6xf32, #lpu.shape<[s0, 6]>>
func.func @symbolic_colsum(%x: !x) -> (tensor<6xf32>) attributes {lpu.symbols = [#lpu.symbol<"s0", 0, 256, 9>]} {
  %1 = lpu_graph.reduce "add" %x dims <[0]> : !x -> tensor<6xf32>
  func.return %1 : tensor<6xf32>
}

// -----

// symbols s0 = 0, 1, 2, 9, 70
!x = tensor<?x6xf32, #lpu.shape<[s0, 6]>>
!m = tensor<?x?xf32, #lpu.shape<[s0, s0]>>
func.func @symbolic_gram(%x: !x) -> (!m) attributes {lpu.symbols = [#lpu.symbol<"s0", 0, 256, 9>]} {
  %1 = lpu_graph.matmul %x, %x transpose [false, true] : !x, !x -> !m
  func.return %1 : !m
}

// -----

// symbols s0 = 0, 1, 2, 9, 70
!x = tensor<?x6xf32, #lpu.shape<[s0, 6]>>
!m = tensor<?x?xf32, #lpu.shape<[s0, s0]>>
func.func @symbolic_mm(%m: !m, %x: !x) -> (!x) attributes {lpu.symbols = [#lpu.symbol<"s0", 0, 256, 9>]} {
  %1 = lpu_graph.matmul %m, %x transpose [false, false] : !m, !x -> !x
  func.return %1 : !x
}

// -----

// symbols s0 = 0, 1, 2, 9, 70
!x = tensor<?x6xf32, #lpu.shape<[s0, 6]>>
func.func @symbolic_flat(%x: !x) -> (tensor<?xf32, #lpu.shape<[6 * s0]>>) attributes {lpu.symbols = [#lpu.symbol<"s0", 0, 256, 9>]} {
  %1 = lpu_graph.reshape %x : !x -> tensor<?xf32, #lpu.shape<[6 * s0]>>
  %2 = lpu_graph.pointwise "neg"(%1) : tensor<?xf32, #lpu.shape<[6 * s0]>> -> tensor<?xf32, #lpu.shape<[6 * s0]>>
  func.return %2 : tensor<?xf32, #lpu.shape<[6 * s0]>>
}

// -----

// symbols s0 = 0, 1, 2, 9, 70
!x = tensor<?x6xf32, #lpu.shape<[s0, 6]>>
func.func @symbolic_concat(%x: !x, %y: tensor<2x6xf32>) -> (tensor<?x6xf32, #lpu.shape<[s0 + 2, 6]>>) attributes {lpu.symbols = [#lpu.symbol<"s0", 0, 256, 9>]} {
  %1 = lpu_graph.concat %x, %y dim 0 : !x, tensor<2x6xf32> -> tensor<?x6xf32, #lpu.shape<[s0 + 2, 6]>>
  func.return %1 : tensor<?x6xf32, #lpu.shape<[s0 + 2, 6]>>
}

// -----

// symbols s0 = 0, 1, 2, 9, 70
!x = tensor<?x6xf32, #lpu.shape<[s0, 6]>>
func.func @symbolic_concat2(%x: !x, %y: tensor<2x6xf32>) -> (tensor<?x6xf32, #lpu.shape<[2 * s0 + 2, 6]>>) attributes {lpu.symbols = [#lpu.symbol<"s0", 0, 256, 9>]} {
  %1 = lpu_graph.concat %y, %x, %x dim 0 : tensor<2x6xf32>, !x, !x -> tensor<?x6xf32, #lpu.shape<[2 * s0 + 2, 6]>>
  func.return %1 : tensor<?x6xf32, #lpu.shape<[2 * s0 + 2, 6]>>
}

// -----

// symbols s0 = 0, 1, 2, 9, 70
!v = tensor<?xf32, #lpu.shape<[s0]>>
func.func @symbolic_pad(%x: !v) -> (tensor<?xf32, #lpu.shape<[s0 + 3]>>) attributes {lpu.symbols = [#lpu.symbol<"s0", 0, 256, 9>]} {
  %1 = lpu_graph.pad %x low <[2]> value 7.0 : f32 : !v -> tensor<?xf32, #lpu.shape<[s0 + 3]>>
  func.return %1 : tensor<?xf32, #lpu.shape<[s0 + 3]>>
}

// -----

// symbols s0 = 1, 2, 9, 70
!x = tensor<?x6xf32, #lpu.shape<[s0, 6]>>
func.func @symbolic_slice_last(%x: !x) -> (tensor<1x6xf32>) attributes {lpu.symbols = [#lpu.symbol<"s0", 0, 256, 9>]} {
  %1 = lpu_graph.slice %x starts <[s0 - 1, 0]> steps <[1, 1]> : !x -> tensor<1x6xf32>
  func.return %1 : tensor<1x6xf32>
}

// -----

// symbols s0 = 0, 1, 2, 9, 70
!x = tensor<?x6xf32, #lpu.shape<[s0, 6]>>
func.func @symbolic_flip(%x: !x) -> (!x) attributes {lpu.symbols = [#lpu.symbol<"s0", 0, 256, 9>]} {
  %1 = lpu_graph.slice %x starts <[s0 - 1, 0]> steps <[-1, 1]> : !x -> !x
  func.return %1 : !x
}

// -----

// symbols s0 = 0, 1, 2, 9, 70
!m = tensor<?x?xf32, #lpu.shape<[s0, s0]>>
func.func @symbolic_causal(%m: !m) -> (!m) attributes {lpu.symbols = [#lpu.symbol<"s0", 0, 256, 9>]} {
  %i = lpu_graph.iota 0 : tensor<?x?xi64, #lpu.shape<[s0, s0]>>
  %j = lpu_graph.iota 1 : tensor<?x?xi64, #lpu.shape<[s0, s0]>>
  %c = lpu_graph.pointwise "le"(%j, %i) : tensor<?x?xi64, #lpu.shape<[s0, s0]>>, tensor<?x?xi64, #lpu.shape<[s0, s0]>> -> tensor<?x?xi1, #lpu.shape<[s0, s0]>>
  %f = lpu_graph.full -9.0 : f32 : tensor<f32>
  %1 = lpu_graph.pointwise "select"(%c, %m, %f) : tensor<?x?xi1, #lpu.shape<[s0, s0]>>, !m, tensor<f32> -> !m
  func.return %1 : !m
}

// -----

// symbols s0 = 0, 1, 2, 9, 70
!v = tensor<?xf32, #lpu.shape<[s0]>>
func.func @symbolic_extent(%x: !v) -> (!v, tensor<i64>) attributes {lpu.symbols = [#lpu.symbol<"s0", 0, 256, 9>]} {
  %e = lpu_graph.extent <2 * s0 + 1> : tensor<i64>
  %f = lpu_graph.convert %e : tensor<i64> -> tensor<f32>
  %1 = lpu_graph.pointwise "mul"(%x, %f) : !v, tensor<f32> -> !v
  func.return %1, %e : !v, tensor<i64>
}

// -----

// symbols s0 = 0, 1, 2, 9, 70
!v = tensor<?xf32, #lpu.shape<[s0]>>
func.func @symbolic_scan(%x: !v) -> (!v) attributes {lpu.symbols = [#lpu.symbol<"s0", 0, 256, 9>]} {
  %1 = lpu_graph.scan "add" %x dim 0 : !v -> !v
  func.return %1 : !v
}

// -----

// symbols s0 = 1, 2, 9, 70
!x = tensor<?x6xf32, #lpu.shape<[s0, 6]>>
func.func @symbolic_argmax(%x: !x) -> (tensor<6xi64>) attributes {lpu.symbols = [#lpu.symbol<"s0", 0, 256, 9>]} {
  %1 = lpu_graph.arg_reduce "max" %x dim 0 : !x -> tensor<6xi64>
  func.return %1 : tensor<6xi64>
}

// -----

// symbols s0 = 1, 2, 9, 70
!x = tensor<?x6xf32, #lpu.shape<[s0, 6]>>
func.func @symbolic_max(%x: !x) -> (tensor<6xf32>) attributes {lpu.symbols = [#lpu.symbol<"s0", 0, 256, 9>]} {
  %1 = lpu_graph.reduce "max" %x dims <[0]> : !x -> tensor<6xf32>
  func.return %1 : tensor<6xf32>
}

// -----

// symbols s0 = 1, 2, 9, 70
// input 1 in 0..s0
!x = tensor<?x6xf32, #lpu.shape<[s0, 6]>>
func.func @symbolic_gather(%x: !x, %i: tensor<3xi64>) -> (tensor<3x6xf32>) attributes {lpu.symbols = [#lpu.symbol<"s0", 0, 256, 9>]} {
  %1 = lpu_graph.gather %x[%i] dims <[0]> at 0 : !x[tensor<3xi64>] -> tensor<3x6xf32>
  func.return %1 : tensor<3x6xf32>
}

// -----

// symbols s0 = 0, 1, 2, 9, 70
!x = tensor<?x6xf32, #lpu.shape<[s0, 6]>>
func.func @symbolic_scatter(%x: tensor<256x6xf32>, %u: !x) -> () attributes {lpu.symbols = [#lpu.symbol<"s0", 0, 256, 9>]} {
  %i = lpu_graph.iota 0 : tensor<?xi64, #lpu.shape<[s0]>>
  %1 = lpu_graph.scatter "replace" %u, %x[%i] dims <[0]> at 0 : !x, tensor<256x6xf32>[tensor<?xi64, #lpu.shape<[s0]>>] -> tensor<256x6xf32>
  lpu_graph.write_back %1, %x : tensor<256x6xf32>, tensor<256x6xf32>
  func.return
}

// -----

// Attention of one head, keys and values of any number, with a causal mask.
// symbols s0 = 1, 3, 8, 70
// approximate
!q = tensor<?x8xf32, #lpu.shape<[s0, 8]>>
!s = tensor<?x?xf32, #lpu.shape<[s0, s0]>>
!i = tensor<?x?xi64, #lpu.shape<[s0, s0]>>
!r = tensor<?xf32, #lpu.shape<[s0]>>
!c = tensor<?x1xf32, #lpu.shape<[s0, 1]>>
func.func @symbolic_attention(%q: !q, %k: !q, %v: !q) -> !q attributes {lpu.symbols = [#lpu.symbol<"s0", 1, 256, 8>]} {
  %0 = lpu_graph.matmul %q, %k transpose [false, true] : !q, !q -> !s
  %i = lpu_graph.iota 0 : !i
  %j = lpu_graph.iota 1 : !i
  %1 = lpu_graph.pointwise "le"(%j, %i) : !i, !i -> tensor<?x?xi1, #lpu.shape<[s0, s0]>>
  %2 = lpu_graph.full 0xFF800000 : f32 : tensor<f32>
  %3 = lpu_graph.pointwise "select"(%1, %0, %2) : tensor<?x?xi1, #lpu.shape<[s0, s0]>>, !s, tensor<f32> -> !s
  %4 = lpu_graph.reduce "max" %3 dims <[1]> : !s -> !r
  %5 = lpu_graph.reshape %4 : !r -> !c
  %6 = lpu_graph.pointwise "sub"(%3, %5) : !s, !c -> !s
  %7 = lpu_graph.pointwise "exp"(%6) : !s -> !s
  %8 = lpu_graph.reduce "add" %7 dims <[1]> : !s -> !r
  %9 = lpu_graph.reshape %8 : !r -> !c
  %10 = lpu_graph.pointwise "div"(%7, %9) : !s, !c -> !s
  %11 = lpu_graph.matmul %10, %v transpose [false, false] : !s, !q -> !q
  func.return %11 : !q
}

// -----

// Results laid out by columns, arguments with strides that depend on a symbol.
// symbols s0 = 1, 4, 33
!x = tensor<?x6xf32, #lpu.shape<[s0, 6]>>
func.func @symbolic_strides(%x: !x {lpu.strides = #lpu.shape<[1, s0]>}, %y: !x {lpu.strides = #lpu.shape<[20, 3]>}) -> (!x {lpu.strides = #lpu.shape<[1, s0 + 2]>}) attributes {lpu.symbols = [#lpu.symbol<"s0", 1, 256, 9>]} {
  %0 = lpu_graph.pointwise "sub"(%x, %y) : !x, !x -> !x
  func.return %0 : !x
}

// -----

// Two symbols.
// symbols s0 = 1, 7, 40
// symbols s1 = 3, 1, 66
!a = tensor<?x?xf32, #lpu.shape<[s0, s1]>>
!b = tensor<?x?xf32, #lpu.shape<[s1, s0]>>
func.func @symbolic_two(%a: !a, %b: !b) -> (!a, tensor<?x?xf32, #lpu.shape<[s0, s0]>>) attributes {lpu.symbols = [#lpu.symbol<"s0", 1, 256, 9>, #lpu.symbol<"s1", 1, -1, 5>]} {
  %0 = lpu_graph.transpose %b <[1, 0]> : !b -> !a
  %1 = lpu_graph.pointwise "add"(%a, %0) : !a, !a -> !a
  %2 = lpu_graph.matmul %1, %b transpose [false, false] : !a, !b -> tensor<?x?xf32, #lpu.shape<[s0, s0]>>
  func.return %1, %2 : !a, tensor<?x?xf32, #lpu.shape<[s0, s0]>>
}

// -----

// Heads of the keys shared by three heads of the queries.
// symbols s0 = 1, 5, 40
!q = tensor<6x?x8xf32, #lpu.shape<[6, s0, 8]>>
!k = tensor<2x?x8xf32, #lpu.shape<[2, s0, 8]>>
!s = tensor<6x?x?xf32, #lpu.shape<[6, s0, s0]>>
func.func @symbolic_grouped_heads(%q: !q, %k: !k) -> !s attributes {lpu.symbols = [#lpu.symbol<"s0", 1, 256, 9>]} {
  %0 = lpu_graph.reshape %k : !k -> tensor<2x1x?x8xf32, #lpu.shape<[2, 1, s0, 8]>>
  %1 = lpu_graph.broadcast %0 : tensor<2x1x?x8xf32, #lpu.shape<[2, 1, s0, 8]>> -> tensor<2x3x?x8xf32, #lpu.shape<[2, 3, s0, 8]>>
  %2 = lpu_graph.reshape %1 : tensor<2x3x?x8xf32, #lpu.shape<[2, 3, s0, 8]>> -> !q
  %3 = lpu_graph.matmul %q, %2 transpose [false, true] : !q, !q -> !s
  func.return %3 : !s
}

// -----

// Pieces within pieces, along a dim of unknown extent.
// symbols s0 = 1, 2, 9
!v = tensor<?xf32, #lpu.shape<[s0]>>
!p = tensor<?xf32, #lpu.shape<[s0 + 2]>>
!q = tensor<?xf32, #lpu.shape<[s0 + 5]>>
func.func @symbolic_pad_of_pad(%x: !v) -> !q attributes {lpu.symbols = [#lpu.symbol<"s0", 1, 256, 8>]} {
  %0 = lpu_graph.pad %x low <[1]> value 2.0 : f32 : !v -> !p
  %1 = lpu_graph.pad %0 low <[3]> value 5.0 : f32 : !p -> !q
  func.return %1 : !q
}

// -----

// symbols s0 = 1, 2, 9
!v = tensor<?xf32, #lpu.shape<[s0]>>
!p = tensor<?xf32, #lpu.shape<[s0 + 2]>>
!q = tensor<?xf32, #lpu.shape<[2 * s0 + 2]>>
func.func @symbolic_concat_of_pad(%x: !v) -> !q attributes {lpu.symbols = [#lpu.symbol<"s0", 1, 256, 8>]} {
  %0 = lpu_graph.pad %x low <[2]> value 2.0 : f32 : !v -> !p
  %1 = lpu_graph.concat %0, %x dim 0 : !p, !v -> !q
  func.return %1 : !q
}

// -----

// Rows become columns: the tile that is turned around is as large as the one that is read.
// symbols s0 = 1, 9, 70
!a = tensor<?x6x?xf32, #lpu.shape<[s0, 6, s0]>>
!b = tensor<6x?x?xf32, #lpu.shape<[6, s0, s0]>>
func.func @symbolic_transpose(%x: !a) -> !b attributes {lpu.symbols = [#lpu.symbol<"s0", 1, 256, 8>]} {
  %0 = lpu_graph.transpose %x <[1, 2, 0]> : !a -> !b
  func.return %0 : !b
}
