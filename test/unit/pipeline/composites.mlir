// approximate
func.func @rows(%x: tensor<5x700xf32>, %y: tensor<3x9x4xf64>) -> (tensor<5x700xf32>, tensor<3x9x4xf64>, tensor<5x700xf32>) {
  %0 = lpu_graph.softmax %x dim 1 : tensor<5x700xf32> -> tensor<5x700xf32>
  %1 = lpu_graph.log_softmax %y dim 1 : tensor<3x9x4xf64> -> tensor<3x9x4xf64>
  %2 = lpu_graph.log_softmax %x dim 0 : tensor<5x700xf32> -> tensor<5x700xf32>
  func.return %0, %1, %2 : tensor<5x700xf32>, tensor<3x9x4xf64>, tensor<5x700xf32>
}

// -----

// symbols s0 = 1, 5, 600
// approximate
func.func @symbolic_rows(%x: tensor<3x?xf32, #lpu.shape<[3, s0]>>) -> (tensor<3x?xf32, #lpu.shape<[3, s0]>>, tensor<3x?xf32, #lpu.shape<[3, s0]>>) attributes {lpu.symbols = [#lpu.symbol<"s0", 1, 4096, 7>]} {
  %0 = lpu_graph.softmax %x dim 1 : tensor<3x?xf32, #lpu.shape<[3, s0]>> -> tensor<3x?xf32, #lpu.shape<[3, s0]>>
  %1 = lpu_graph.rms_norm %x rank 1 eps 1.0e-6 : f32 : tensor<3x?xf32, #lpu.shape<[3, s0]>> -> tensor<3x?xf32, #lpu.shape<[3, s0]>>
  func.return %0, %1 : tensor<3x?xf32, #lpu.shape<[3, s0]>>, tensor<3x?xf32, #lpu.shape<[3, s0]>>
}

// -----

// approximate
func.func @norms(%x: tensor<5x3x40xf32>, %w: tensor<40xf32>, %m: tensor<3x40xf32>) -> (tensor<5x3x40xf32>, tensor<5x3x40xf32>, tensor<5x3x40xf32>, tensor<5x3x40xf32>) {
  %0 = lpu_graph.rms_norm %x weight %w rank 1 eps 1.0e-6 : f32 : tensor<5x3x40xf32>, tensor<40xf32> -> tensor<5x3x40xf32>
  %1 = lpu_graph.layer_norm %x weight %m bias %m rank 2 eps 1.0e-5 : f32 : tensor<5x3x40xf32> weight tensor<3x40xf32> bias tensor<3x40xf32> -> tensor<5x3x40xf32>
  %2 = lpu_graph.layer_norm %x bias %w rank 1 eps 1.0e-5 : f32 : tensor<5x3x40xf32> bias tensor<40xf32> -> tensor<5x3x40xf32>
  %3 = lpu_graph.layer_norm %x rank 3 eps 1.0e-5 : f32 : tensor<5x3x40xf32> -> tensor<5x3x40xf32>
  func.return %0, %1, %2, %3 : tensor<5x3x40xf32>, tensor<5x3x40xf32>, tensor<5x3x40xf32>, tensor<5x3x40xf32>
}

// -----

func.func @rotated(%x: tensor<2x5x12xf32>, %c: tensor<5x12xf32>, %h: tensor<3x6xbf16>, %s: tensor<1x6xbf16>) -> (tensor<2x5x12xf32>, tensor<3x6xbf16>) {
  %0 = lpu_graph.rope %x cos %c sin %c : tensor<2x5x12xf32>, tensor<5x12xf32>, tensor<5x12xf32> -> tensor<2x5x12xf32>
  %1 = lpu_graph.rope %h cos %s sin %s : tensor<3x6xbf16>, tensor<1x6xbf16>, tensor<1x6xbf16> -> tensor<3x6xbf16>
  func.return %0, %1 : tensor<2x5x12xf32>, tensor<3x6xbf16>
}

// -----

// One chunk of positions and several; one row and several.
// approximate
func.func @attention_rows(%q: tensor<3x5x8xf32>, %k: tensor<3x9x8xf32>, %v: tensor<3x9x6xf32>, %q1: tensor<2x1x8xf64>, %k1: tensor<2x700x8xf64>, %v1: tensor<2x700x6xf64>) -> (tensor<3x5x6xf32>, tensor<2x1x6xf64>) {
  %0 = lpu_graph.attention %q, %k, %v : tensor<3x5x8xf32>, tensor<3x9x8xf32>, tensor<3x9x6xf32>, () -> tensor<3x5x6xf32> {
  ^bb0(%s: tensor<f32>):
    %c = lpu_graph.full 0.1 : f32 : tensor<f32>
    %1 = lpu_graph.pointwise "mul"(%s, %c) : tensor<f32>, tensor<f32> -> tensor<f32>
    lpu_graph.yield %1 : tensor<f32>
  }
  %2 = lpu_graph.attention safe %q1, %k1, %v1 : tensor<2x1x8xf64>, tensor<2x700x8xf64>, tensor<2x700x6xf64>, () -> tensor<2x1x6xf64> {
  ^bb0(%s: tensor<f64>):
    lpu_graph.yield %s : tensor<f64>
  }
  func.return %0, %2 : tensor<3x5x6xf32>, tensor<2x1x6xf64>
}

// -----

// Rows of which every score is -inf: 0 if it is safe, else NaN. Chunks of which every score is.
// approximate
// input 3 in 0..2
func.func @masked_attention(%q: tensor<4x8xf32>, %k: tensor<600x8xf32>, %v: tensor<600x6xf32>, %b: tensor<4x1xi1>) -> (tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>) {
  %i = lpu_graph.iota 0 : tensor<600xi64>
  %n = lpu_graph.full 590 : i64 : tensor<i64>
  %last = lpu_graph.pointwise "gt"(%i, %n) : tensor<600xi64>, tensor<i64> -> tensor<600xi1>
  %0 = lpu_graph.attention safe %q, %k, %v with %b : tensor<4x8xf32>, tensor<600x8xf32>, tensor<600x6xf32>, (tensor<4x1xi1>) -> tensor<4x6xf32> {
  ^bb0(%s: tensor<f32>, %m: tensor<i1>):
    %inf = lpu_graph.full 0xff800000 : f32 : tensor<f32>
    %1 = lpu_graph.pointwise "select"(%m, %s, %inf) : tensor<i1>, tensor<f32>, tensor<f32> -> tensor<f32>
    lpu_graph.yield %1 : tensor<f32>
  }
  %2 = lpu_graph.attention %q, %k, %v with %b : tensor<4x8xf32>, tensor<600x8xf32>, tensor<600x6xf32>, (tensor<4x1xi1>) -> tensor<4x6xf32> {
  ^bb0(%s: tensor<f32>, %m: tensor<i1>):
    %inf = lpu_graph.full 0xff800000 : f32 : tensor<f32>
    %1 = lpu_graph.pointwise "select"(%m, %s, %inf) : tensor<i1>, tensor<f32>, tensor<f32> -> tensor<f32>
    lpu_graph.yield %1 : tensor<f32>
  }
  %3 = lpu_graph.attention %q, %k, %v with %last : tensor<4x8xf32>, tensor<600x8xf32>, tensor<600x6xf32>, (tensor<600xi1>) -> tensor<4x6xf32> {
  ^bb0(%s: tensor<f32>, %m: tensor<i1>):
    %inf = lpu_graph.full 0xff800000 : f32 : tensor<f32>
    %1 = lpu_graph.pointwise "select"(%m, %s, %inf) : tensor<i1>, tensor<f32>, tensor<f32> -> tensor<f32>
    lpu_graph.yield %1 : tensor<f32>
  }
  func.return %0, %2, %3 : tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>
}

// -----

// Half precision: the score is rounded, and the weights. Keys shared by groups of heads.
// approximate
func.func @grouped_half(%q: tensor<6x5x8xbf16>, %k: tensor<2x300x8xbf16>, %v: tensor<2x300x6xbf16>, %m: tensor<300xbf16>) -> (tensor<6x5x6xbf16>) {
  %k0 = lpu_graph.reshape %k : tensor<2x300x8xbf16> -> tensor<2x1x300x8xbf16>
  %k1 = lpu_graph.broadcast %k0 : tensor<2x1x300x8xbf16> -> tensor<2x3x300x8xbf16>
  %k2 = lpu_graph.reshape %k1 : tensor<2x3x300x8xbf16> -> tensor<6x300x8xbf16>
  %v0 = lpu_graph.reshape %v : tensor<2x300x6xbf16> -> tensor<2x1x300x6xbf16>
  %v1 = lpu_graph.broadcast %v0 : tensor<2x1x300x6xbf16> -> tensor<2x3x300x6xbf16>
  %v2 = lpu_graph.reshape %v1 : tensor<2x3x300x6xbf16> -> tensor<6x300x6xbf16>
  %0 = lpu_graph.attention %q, %k2, %v2 with %m : tensor<6x5x8xbf16>, tensor<6x300x8xbf16>, tensor<6x300x6xbf16>, (tensor<300xbf16>) -> tensor<6x5x6xbf16> {
  ^bb0(%s: tensor<bf16>, %a: tensor<bf16>):
    %c = lpu_graph.full 0.3 : bf16 : tensor<bf16>
    %1 = lpu_graph.pointwise "mul"(%s, %c) : tensor<bf16>, tensor<bf16> -> tensor<bf16>
    %2 = lpu_graph.pointwise "add"(%1, %a) : tensor<bf16>, tensor<bf16> -> tensor<bf16>
    %3 = lpu_graph.convert %2 : tensor<bf16> -> tensor<f32>
    lpu_graph.yield %3 : tensor<f32>
  }
  func.return %0 : tensor<6x5x6xbf16>
}

// -----

// symbols l = 1, 5, 40, 1, 3
// symbols s = 1, 5, 40, 600, 130
// approximate
func.func @walk_of_symbolic_length(%q: tensor<4x?x8xf32, #lpu.shape<[4, l, 8]>>, %k: tensor<4x?x8xf32, #lpu.shape<[4, s, 8]>>, %v: tensor<4x?x6xf32, #lpu.shape<[4, s, 6]>>) -> (tensor<4x?x6xf32, #lpu.shape<[4, l, 6]>>) attributes {lpu.symbols = [#lpu.symbol<"l", 1, 4096, 7>, #lpu.symbol<"s", 1, 4096, 7>]} {
  %0 = lpu_graph.attention %q, %k, %v : tensor<4x?x8xf32, #lpu.shape<[4, l, 8]>>, tensor<4x?x8xf32, #lpu.shape<[4, s, 8]>>, tensor<4x?x6xf32, #lpu.shape<[4, s, 6]>>, () -> tensor<4x?x6xf32, #lpu.shape<[4, l, 6]>> {
  ^bb0(%s: tensor<f32>):
    %c = lpu_graph.full 5.0 : f32 : tensor<f32>
    %1 = lpu_graph.pointwise "div"(%s, %c) : tensor<f32>, tensor<f32> -> tensor<f32>
    %2 = lpu_graph.pointwise "tanh"(%1) : tensor<f32> -> tensor<f32>
    %3 = lpu_graph.pointwise "mul"(%2, %c) : tensor<f32>, tensor<f32> -> tensor<f32>
    lpu_graph.yield %3 : tensor<f32>
  }
  func.return %0 : tensor<4x?x6xf32, #lpu.shape<[4, l, 6]>>
}

// -----

// Nothing to look at: rows of 0, if it is safe.
// symbols s = 0, 3
// approximate
func.func @maybe_empty(%q: tensor<2x8xf32>, %k: tensor<?x8xf32, #lpu.shape<[s, 8]>>, %v: tensor<?x6xf32, #lpu.shape<[s, 6]>>) -> (tensor<2x6xf32>) attributes {lpu.symbols = [#lpu.symbol<"s", 0, 4096, 7>]} {
  %0 = lpu_graph.attention safe %q, %k, %v : tensor<2x8xf32>, tensor<?x8xf32, #lpu.shape<[s, 8]>>, tensor<?x6xf32, #lpu.shape<[s, 6]>>, () -> tensor<2x6xf32> {
  ^bb0(%s: tensor<f32>):
    lpu_graph.yield %s : tensor<f32>
  }
  func.return %0 : tensor<2x6xf32>
}

// -----

// No score differs between the columns that the cores would divide; a row alone; no features.
// approximate
func.func @small(%q: tensor<1x8xf32>, %k: tensor<3x8xf32>, %v: tensor<3x64xf32>, %k1: tensor<1x8xf32>, %v1: tensor<1x64xf32>) -> (tensor<1x64xf32>, tensor<1x64xf32>) {
  %0 = lpu_graph.attention %q, %k, %v : tensor<1x8xf32>, tensor<3x8xf32>, tensor<3x64xf32>, () -> tensor<1x64xf32> {
  ^bb0(%s: tensor<f32>):
    lpu_graph.yield %s : tensor<f32>
  }
  %1 = lpu_graph.attention safe %q, %k1, %v1 : tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x64xf32>, () -> tensor<1x64xf32> {
  ^bb0(%s: tensor<f32>):
    lpu_graph.yield %s : tensor<f32>
  }
  func.return %0, %1 : tensor<1x64xf32>, tensor<1x64xf32>
}

// -----

// Scores of one row, walked over for each of several tiles of columns.
// symbols d = 3, 70
// approximate
func.func @columns_in_tiles(%q: tensor<3x8xf32>, %k: tensor<90x8xf32>, %v: tensor<90x?xf32, #lpu.shape<[90, d]>>) -> (tensor<3x?xf32, #lpu.shape<[3, d]>>) attributes {lpu.symbols = [#lpu.symbol<"d", 1, 4096, 7>]} {
  %0 = lpu_graph.attention safe %q, %k, %v : tensor<3x8xf32>, tensor<90x8xf32>, tensor<90x?xf32, #lpu.shape<[90, d]>>, () -> tensor<3x?xf32, #lpu.shape<[3, d]>> {
  ^bb0(%s: tensor<f32>):
    lpu_graph.yield %s : tensor<f32>
  }
  func.return %0 : tensor<3x?xf32, #lpu.shape<[3, d]>>
}

// -----

// One key for all positions: the scores do not differ along them.
// approximate
func.func @one_key(%q: tensor<3x8xf32>, %k: tensor<1x8xf32>, %v: tensor<9x6xf32>) -> (tensor<3x6xf32>) {
  %0 = lpu_graph.broadcast %k : tensor<1x8xf32> -> tensor<9x8xf32>
  %1 = lpu_graph.attention %q, %0, %v : tensor<3x8xf32>, tensor<9x8xf32>, tensor<9x6xf32>, () -> tensor<3x6xf32> {
  ^bb0(%s: tensor<f32>):
    lpu_graph.yield %s : tensor<f32>
  }
  func.return %1 : tensor<3x6xf32>
}
