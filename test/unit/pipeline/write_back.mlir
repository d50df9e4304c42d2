func.func @swap(%a: tensor<6xf32>, %b: tensor<6xf32>) {
  lpu_graph.write_back %a, %b : tensor<6xf32>, tensor<6xf32>
  lpu_graph.write_back %b, %a : tensor<6xf32>, tensor<6xf32>
  func.return
}

// -----

func.func @rot3(%a: tensor<6xf32>, %b: tensor<6xf32>, %c: tensor<6xf32>) {
  lpu_graph.write_back %a, %b : tensor<6xf32>, tensor<6xf32>
  lpu_graph.write_back %b, %c : tensor<6xf32>, tensor<6xf32>
  lpu_graph.write_back %c, %a : tensor<6xf32>, tensor<6xf32>
  func.return
}

// -----

func.func @swap_computed(%a: tensor<6xf32>, %b: tensor<6xf32>) -> (tensor<6xf32>) {
  %0 = lpu_graph.pointwise "neg"(%a) : tensor<6xf32> -> tensor<6xf32>
  %1 = lpu_graph.pointwise "abs"(%b) : tensor<6xf32> -> tensor<6xf32>
  lpu_graph.write_back %0, %b : tensor<6xf32>, tensor<6xf32>
  lpu_graph.write_back %1, %a : tensor<6xf32>, tensor<6xf32>
  func.return %0 : tensor<6xf32>
}

// -----

func.func @wb_same_twice(%a: tensor<6xf32>, %b: tensor<6xf32>) -> (tensor<6xf32>) {
  %0 = lpu_graph.pointwise "neg"(%a) : tensor<6xf32> -> tensor<6xf32>
  lpu_graph.write_back %0, %b : tensor<6xf32>, tensor<6xf32>
  lpu_graph.write_back %0, %a : tensor<6xf32>, tensor<6xf32>
  func.return %0 : tensor<6xf32>
}

// -----

func.func @wb_view(%a: tensor<6x6xf32>) {
  %0 = lpu_graph.transpose %a <[1, 0]> : tensor<6x6xf32> -> tensor<6x6xf32>
  lpu_graph.write_back %0, %a : tensor<6x6xf32>, tensor<6x6xf32>
  func.return
}

// -----

func.func @wb_transposed_add(%a: tensor<6x6xf32>) {
  %0 = lpu_graph.transpose %a <[1, 0]> : tensor<6x6xf32> -> tensor<6x6xf32>
  %1 = lpu_graph.pointwise "add"(%a, %0) : tensor<6x6xf32>, tensor<6x6xf32> -> tensor<6x6xf32>
  lpu_graph.write_back %1, %a : tensor<6x6xf32>, tensor<6x6xf32>
  func.return
}

// -----

func.func @wb_old_returned(%a: tensor<6xf32>) -> (tensor<6xf32>) {
  %0 = lpu_graph.pointwise "neg"(%a) : tensor<6xf32> -> tensor<6xf32>
  lpu_graph.write_back %0, %a : tensor<6xf32>, tensor<6xf32>
  func.return %a : tensor<6xf32>
}

// -----

// input 0 in 0..9
func.func @counter(%n: tensor<i64>, %t: tensor<9x6xf32>) -> (tensor<1x6xf32>) {
  %one = lpu_graph.full 1 : i64 : tensor<i64>
  %i = lpu_graph.reshape %n : tensor<i64> -> tensor<1xi64>
  %row = lpu_graph.gather %t[%i] dims <[0]> at 0 : tensor<9x6xf32>[tensor<1xi64>] -> tensor<1x6xf32>
  %next = lpu_graph.pointwise "add"(%n, %one) : tensor<i64>, tensor<i64> -> tensor<i64>
  lpu_graph.write_back %next, %n : tensor<i64>, tensor<i64>
  func.return %row : tensor<1x6xf32>
}

// -----

// input 2 in 0..32
func.func @cache(%c: tensor<1x3x32x8xf32>, %u: tensor<1x3x1x8xf32>, %i: tensor<1xi64>) -> (tensor<1x3x32xf32>) {
  %1 = lpu_graph.scatter "replace" %u, %c[%i] dims <[2]> at 2 : tensor<1x3x1x8xf32>, tensor<1x3x32x8xf32>[tensor<1xi64>] -> tensor<1x3x32x8xf32>
  %2 = lpu_graph.reduce "add" %1 dims <[3]> : tensor<1x3x32x8xf32> -> tensor<1x3x32xf32>
  lpu_graph.write_back %1, %c : tensor<1x3x32x8xf32>, tensor<1x3x32x8xf32>
  func.return %2 : tensor<1x3x32xf32>
}

// -----

// input 2 in 0..32
func.func @cache_old_read_later(%c: tensor<32x8xf32>, %u: tensor<1x8xf32>, %i: tensor<1xi64>) -> (tensor<32xf32>, tensor<8xf32>) {
  %1 = lpu_graph.scatter "replace" %u, %c[%i] dims <[0]> at 0 : tensor<1x8xf32>, tensor<32x8xf32>[tensor<1xi64>] -> tensor<32x8xf32>
  %2 = lpu_graph.reduce "add" %1 dims <[1]> : tensor<32x8xf32> -> tensor<32xf32>
  %3 = lpu_graph.reduce "add" %c dims <[0]> : tensor<32x8xf32> -> tensor<8xf32>
  lpu_graph.write_back %1, %c : tensor<32x8xf32>, tensor<32x8xf32>
  func.return %2, %3 : tensor<32xf32>, tensor<8xf32>
}

// -----

// input 2 in 0..32
func.func @cache_returned(%c: tensor<32x8xf32>, %u: tensor<1x8xf32>, %i: tensor<1xi64>) -> (tensor<32x8xf32>) {
  %1 = lpu_graph.scatter "replace" %u, %c[%i] dims <[0]> at 0 : tensor<1x8xf32>, tensor<32x8xf32>[tensor<1xi64>] -> tensor<32x8xf32>
  lpu_graph.write_back %1, %c : tensor<32x8xf32>, tensor<32x8xf32>
  func.return %1 : tensor<32x8xf32>
}

// -----

// input 2 in 0..32
// input 3 in 0..32
func.func @scatter_chain(%c: tensor<32x8xf32>, %u: tensor<1x8xf32>, %i: tensor<1xi64>, %j: tensor<1xi64>) {
  %1 = lpu_graph.scatter "replace" %u, %c[%i] dims <[0]> at 0 : tensor<1x8xf32>, tensor<32x8xf32>[tensor<1xi64>] -> tensor<32x8xf32>
  %2 = lpu_graph.scatter "add" %u, %1[%j] dims <[0]> at 0 : tensor<1x8xf32>, tensor<32x8xf32>[tensor<1xi64>] -> tensor<32x8xf32>
  lpu_graph.write_back %2, %c : tensor<32x8xf32>, tensor<32x8xf32>
  func.return
}

// -----

// input 2 in 0..32
// input 3 in 0..32
func.func @scatter_fork(%c: tensor<32x8xf32>, %u: tensor<1x8xf32>, %i: tensor<1xi64>, %j: tensor<1xi64>) -> (tensor<32x8xf32>) {
  %1 = lpu_graph.scatter "replace" %u, %c[%i] dims <[0]> at 0 : tensor<1x8xf32>, tensor<32x8xf32>[tensor<1xi64>] -> tensor<32x8xf32>
  %2 = lpu_graph.scatter "add" %u, %c[%j] dims <[0]> at 0 : tensor<1x8xf32>, tensor<32x8xf32>[tensor<1xi64>] -> tensor<32x8xf32>
  lpu_graph.write_back %2, %c : tensor<32x8xf32>, tensor<32x8xf32>
  func.return %1 : tensor<32x8xf32>
}

// -----

// input 1 in 0..8
func.func @scatter_self_update(%c: tensor<8x8xf32>, %i: tensor<1xi64>) {
  %u = lpu_graph.slice %c starts <[2, 0]> steps <[1, 1]> : tensor<8x8xf32> -> tensor<1x8xf32>
  %1 = lpu_graph.scatter "replace" %u, %c[%i] dims <[0]> at 0 : tensor<1x8xf32>, tensor<8x8xf32>[tensor<1xi64>] -> tensor<8x8xf32>
  lpu_graph.write_back %1, %c : tensor<8x8xf32>, tensor<8x8xf32>
  func.return
}

// -----

func.func @strided_wb(%a: tensor<6x4xf32> {lpu.strides = #lpu.shape<[1, 6]>}, %b: tensor<6x4xf32>) -> (tensor<6x4xf32>) {
  %0 = lpu_graph.pointwise "add"(%a, %b) : tensor<6x4xf32>, tensor<6x4xf32> -> tensor<6x4xf32>
  lpu_graph.write_back %0, %a : tensor<6x4xf32>, tensor<6x4xf32>
  func.return %0 : tensor<6x4xf32>
}
