// approximate
func.func @transpose_exp(%x: tensor<3x4xf32>) -> (tensor<4x3xf32>) {
  %0 = lpu_graph.transpose %x <[1, 0]> : tensor<3x4xf32> -> tensor<4x3xf32>
  %1 = lpu_graph.pointwise "exp"(%0) : tensor<4x3xf32> -> tensor<4x3xf32>
  func.return %1 : tensor<4x3xf32>
}

// -----

func.func @scalar0d(%x: tensor<f32>, %y: tensor<f32>) -> (tensor<f32>) {
  %1 = lpu_graph.pointwise "add"(%x, %y) : tensor<f32>, tensor<f32> -> tensor<f32>
  func.return %1 : tensor<f32>
}

// -----

func.func @bcast(%x: tensor<5x1x7xf32>, %y: tensor<6x1xf32>) -> (tensor<5x6x7xf32>) {
  %1 = lpu_graph.pointwise "sub"(%x, %y) : tensor<5x1x7xf32>, tensor<6x1xf32> -> tensor<5x6x7xf32>
  func.return %1 : tensor<5x6x7xf32>
}

// -----

func.func @reduce2(%x: tensor<5x6x7xf32>) -> (tensor<6xf32>) {
  %1 = lpu_graph.reduce "add" %x dims <[0, 2]> : tensor<5x6x7xf32> -> tensor<6xf32>
  func.return %1 : tensor<6xf32>
}

// -----

func.func @reduceall(%x: tensor<50x60xf32>) -> (tensor<f32>) {
  %1 = lpu_graph.reduce "max" %x dims <[0, 1]> : tensor<50x60xf32> -> tensor<f32>
  func.return %1 : tensor<f32>
}

// -----

func.func @matmul(%x: tensor<30x70xf32>, %w: tensor<50x70xf32>) -> (tensor<30x50xf32>) {
  %1 = lpu_graph.matmul %x, %w transpose [false, true] : tensor<30x70xf32>, tensor<50x70xf32> -> tensor<30x50xf32>
  func.return %1 : tensor<30x50xf32>
}

// -----

func.func @matmul_big(%x: tensor<3x600xf32>, %w: tensor<500x600xf32>) -> (tensor<3x500xf32>) {
  %1 = lpu_graph.matmul %x, %w transpose [false, true] : tensor<3x600xf32>, tensor<500x600xf32> -> tensor<3x500xf32>
  func.return %1 : tensor<3x500xf32>
}

// -----

func.func @bmm_t(%x: tensor<2x7x3xbf16>, %w: tensor<2x7x5xbf16>) -> (tensor<2x3x5xbf16>) {
  %1 = lpu_graph.matmul %x, %w transpose [true, false] : tensor<2x7x3xbf16>, tensor<2x7x5xbf16> -> tensor<2x3x5xbf16>
  func.return %1 : tensor<2x3x5xbf16>
}

// -----

func.func @matmul_int(%x: tensor<3x6xi64>, %w: tensor<6x5xi64>) -> (tensor<3x5xi64>) {
  %1 = lpu_graph.matmul %x, %w transpose [false, false] : tensor<3x6xi64>, tensor<6x5xi64> -> tensor<3x5xi64>
  func.return %1 : tensor<3x5xi64>
}

// -----

func.func @matmul_k1(%x: tensor<3x1xf32>, %w: tensor<1x5xf32>) -> (tensor<3x5xf32>) {
  %1 = lpu_graph.matmul %x, %w transpose [false, false] : tensor<3x1xf32>, tensor<1x5xf32> -> tensor<3x5xf32>
  func.return %1 : tensor<3x5xf32>
}

// -----

func.func @matmul_k0(%x: tensor<3x0xf32>, %w: tensor<0x5xf32>) -> (tensor<3x5xf32>) {
  %1 = lpu_graph.matmul %x, %w transpose [false, false] : tensor<3x0xf32>, tensor<0x5xf32> -> tensor<3x5xf32>
  func.return %1 : tensor<3x5xf32>
}

// -----

func.func @gram(%x: tensor<7x9xf32>) -> (tensor<7x7xf32>) {
  %1 = lpu_graph.matmul %x, %x transpose [false, true] : tensor<7x9xf32>, tensor<7x9xf32> -> tensor<7x7xf32>
  func.return %1 : tensor<7x7xf32>
}

// -----

func.func @dot_self(%x: tensor<1x9xf32>) -> (tensor<1x1xf32>) {
  %1 = lpu_graph.matmul %x, %x transpose [false, true] : tensor<1x9xf32>, tensor<1x9xf32> -> tensor<1x1xf32>
  func.return %1 : tensor<1x1xf32>
}

// -----

func.func @gqa(%q: tensor<6x4x8xf32>, %k: tensor<2x5x8xf32>) -> (tensor<6x4x5xf32>) {
  %0 = lpu_graph.reshape %k : tensor<2x5x8xf32> -> tensor<2x1x5x8xf32>
  %1 = lpu_graph.broadcast %0 : tensor<2x1x5x8xf32> -> tensor<2x3x5x8xf32>
  %2 = lpu_graph.reshape %1 : tensor<2x3x5x8xf32> -> tensor<6x5x8xf32>
  %3 = lpu_graph.matmul %q, %2 transpose [false, true] : tensor<6x4x8xf32>, tensor<6x5x8xf32> -> tensor<6x4x5xf32>
  func.return %3 : tensor<6x4x5xf32>
}

// -----

func.func @concat(%x: tensor<3x4xf32>, %y: tensor<3x2xf32>, %z: tensor<3x5xf32>) -> (tensor<3x11xf32>) {
  %1 = lpu_graph.concat %x, %y, %z dim 1 : tensor<3x4xf32>, tensor<3x2xf32>, tensor<3x5xf32> -> tensor<3x11xf32>
  func.return %1 : tensor<3x11xf32>
}

// -----

func.func @concat_same(%x: tensor<3x4xf32>) -> (tensor<6x4xf32>) {
  %1 = lpu_graph.concat %x, %x dim 0 : tensor<3x4xf32>, tensor<3x4xf32> -> tensor<6x4xf32>
  func.return %1 : tensor<6x4xf32>
}

// -----

func.func @concat_empty(%x: tensor<3x0xf32>, %y: tensor<3x2xf32>) -> (tensor<3x2xf32>) {
  %1 = lpu_graph.concat %x, %y dim 1 : tensor<3x0xf32>, tensor<3x2xf32> -> tensor<3x2xf32>
  func.return %1 : tensor<3x2xf32>
}

// -----

func.func @concat_unit(%x: tensor<1x4xf32>, %y: tensor<1x4xf32>) -> (tensor<2x4xf32>) {
  %1 = lpu_graph.concat %x, %y dim 0 : tensor<1x4xf32>, tensor<1x4xf32> -> tensor<2x4xf32>
  func.return %1 : tensor<2x4xf32>
}

// -----

func.func @rotary(%x: tensor<2x5x8xf32>, %c: tensor<5x8xf32>) -> (tensor<2x5x8xf32>) {
  %0 = lpu_graph.slice %x starts <[0, 0, 4]> steps <[1, 1, 1]> : tensor<2x5x8xf32> -> tensor<2x5x4xf32>
  %1 = lpu_graph.pointwise "neg"(%0) : tensor<2x5x4xf32> -> tensor<2x5x4xf32>
  %2 = lpu_graph.slice %x starts <[0, 0, 0]> steps <[1, 1, 1]> : tensor<2x5x8xf32> -> tensor<2x5x4xf32>
  %3 = lpu_graph.concat %1, %2 dim 2 : tensor<2x5x4xf32>, tensor<2x5x4xf32> -> tensor<2x5x8xf32>
  %4 = lpu_graph.pointwise "mul"(%3, %c) : tensor<2x5x8xf32>, tensor<5x8xf32> -> tensor<2x5x8xf32>
  %5 = lpu_graph.pointwise "add"(%4, %x) : tensor<2x5x8xf32>, tensor<2x5x8xf32> -> tensor<2x5x8xf32>
  func.return %5 : tensor<2x5x8xf32>
}

// -----

func.func @pad(%x: tensor<3x4xf32>) -> (tensor<6x6xf32>) {
  %1 = lpu_graph.pad %x low <[1, 2]> value 7.0 : f32 : tensor<3x4xf32> -> tensor<6x6xf32>
  func.return %1 : tensor<6x6xf32>
}

// -----

func.func @pad_empty(%x: tensor<0x4xf32>) -> (tensor<3x4xf32>) {
  %1 = lpu_graph.pad %x low <[1, 0]> value 7.0 : f32 : tensor<0x4xf32> -> tensor<3x4xf32>
  func.return %1 : tensor<3x4xf32>
}

// -----

func.func @pad_conv_reduce(%x: tensor<3x4xf32>) -> (tensor<6xf32>) {
  %1 = lpu_graph.pad %x low <[1, 2]> value 7.0 : f32 : tensor<3x4xf32> -> tensor<6x6xf32>
  %2 = lpu_graph.reduce "add" %1 dims <[1]> : tensor<6x6xf32> -> tensor<6xf32>
  func.return %2 : tensor<6xf32>
}

// -----

func.func @flip(%x: tensor<30x40xf32>) -> (tensor<30x40xf32>) {
  %1 = lpu_graph.slice %x starts <[29, 0]> steps <[-1, 1]> : tensor<30x40xf32> -> tensor<30x40xf32>
  func.return %1 : tensor<30x40xf32>
}

// -----

func.func @stride_slice(%x: tensor<30x40xf32>) -> (tensor<14x7xf32>) {
  %1 = lpu_graph.slice %x starts <[1, 3]> steps <[2, 5]> : tensor<30x40xf32> -> tensor<14x7xf32>
  func.return %1 : tensor<14x7xf32>
}

// -----

// input 1 in 0..96
func.func @gather(%t: tensor<96x24xf32>, %i: tensor<1x3xi64>) -> (tensor<1x3x24xf32>) {
  %1 = lpu_graph.gather %t[%i] dims <[0]> at 0 : tensor<96x24xf32>[tensor<1x3xi64>] -> tensor<1x3x24xf32>
  func.return %1 : tensor<1x3x24xf32>
}

// -----

// input 1 in 0..9
// input 2 in 0..5
func.func @gather2(%t: tensor<9x24x5xf32>, %i: tensor<4xi64>, %j: tensor<4xi64>) -> (tensor<24x4xf32>) {
  %1 = lpu_graph.gather %t[%i, %j] dims <[0, 2]> at 1 : tensor<9x24x5xf32>[tensor<4xi64>, tensor<4xi64>] -> tensor<24x4xf32>
  func.return %1 : tensor<24x4xf32>
}

// -----

// input 1 in 0..9
func.func @gather_mid(%t: tensor<2x9x5xf32>, %i: tensor<4x2xi64>) -> (tensor<2x4x2x5xf32>) {
  %1 = lpu_graph.gather %t[%i] dims <[1]> at 1 : tensor<2x9x5xf32>[tensor<4x2xi64>] -> tensor<2x4x2x5xf32>
  func.return %1 : tensor<2x4x2x5xf32>
}

// -----

// input 1 in 0..9
func.func @gather_last0d(%t: tensor<2x9xf32>, %i: tensor<i64>) -> (tensor<2xf32>) {
  %1 = lpu_graph.gather %t[%i] dims <[1]> at 1 : tensor<2x9xf32>[tensor<i64>] -> tensor<2xf32>
  func.return %1 : tensor<2xf32>
}

// -----

// input 1 in 0..9
func.func @gather_view(%t: tensor<9x6xf32>, %i: tensor<4xi64>) -> (tensor<4x6xf32>) {
  %0 = lpu_graph.transpose %t <[1, 0]> : tensor<9x6xf32> -> tensor<6x9xf32>
  %1 = lpu_graph.gather %0[%i] dims <[1]> at 0 : tensor<6x9xf32>[tensor<4xi64>] -> tensor<4x6xf32>
  func.return %1 : tensor<4x6xf32>
}

// -----

// input 1 in 0..9
func.func @gather_reshaped(%t: tensor<54xf32>, %i: tensor<4xi64>) -> (tensor<4x6xf32>) {
  %0 = lpu_graph.reshape %t : tensor<54xf32> -> tensor<9x6xf32>
  %1 = lpu_graph.gather %0[%i] dims <[0]> at 0 : tensor<9x6xf32>[tensor<4xi64>] -> tensor<4x6xf32>
  func.return %1 : tensor<4x6xf32>
}

// -----

// input 1 in 0..54
func.func @gather_split(%t: tensor<9x6xf32>, %i: tensor<4xi64>) -> (tensor<4xf32>) {
  %0 = lpu_graph.reshape %t : tensor<9x6xf32> -> tensor<54xf32>
  %1 = lpu_graph.gather %0[%i] dims <[0]> at 0 : tensor<54xf32>[tensor<4xi64>] -> tensor<4xf32>
  func.return %1 : tensor<4xf32>
}

// -----

// input 1 in 0..1
func.func @gather_unit(%t: tensor<1x6xf32>, %i: tensor<4xi64>) -> (tensor<4x6xf32>) {
  %1 = lpu_graph.gather %t[%i] dims <[0]> at 0 : tensor<1x6xf32>[tensor<4xi64>] -> tensor<4x6xf32>
  func.return %1 : tensor<4x6xf32>
}

// -----

// input 1 in 0..5
func.func @gather_computed_idx(%t: tensor<9x6xf32>, %i: tensor<4xi64>) -> (tensor<4x6xf32>) {
  %0 = lpu_graph.pointwise "add"(%i, %i) : tensor<4xi64>, tensor<4xi64> -> tensor<4xi64>
  %1 = lpu_graph.gather %t[%0] dims <[0]> at 0 : tensor<9x6xf32>[tensor<4xi64>] -> tensor<4x6xf32>
  %2 = lpu_graph.pointwise "exp2"(%1) : tensor<4x6xf32> -> tensor<4x6xf32>
  func.return %2 : tensor<4x6xf32>
}

// -----

// input 1 in 0..9
func.func @gather_computed_src(%t: tensor<9x6xf32>, %i: tensor<4xi64>) -> (tensor<4x6xf32>) {
  %0 = lpu_graph.pointwise "neg"(%t) : tensor<9x6xf32> -> tensor<9x6xf32>
  %1 = lpu_graph.gather %0[%i] dims <[0]> at 0 : tensor<9x6xf32>[tensor<4xi64>] -> tensor<4x6xf32>
  func.return %1 : tensor<4x6xf32>
}

// -----

// input 2 in 0..32
func.func @scatter(%c: tensor<1x3x32x8xf32>, %u: tensor<1x3x1x8xf32>, %i: tensor<1xi64>) -> (tensor<1x3x32x8xf32>) {
  %1 = lpu_graph.scatter "replace" %u, %c[%i] dims <[2]> at 2 : tensor<1x3x1x8xf32>, tensor<1x3x32x8xf32>[tensor<1xi64>] -> tensor<1x3x32x8xf32>
  func.return %1 : tensor<1x3x32x8xf32>
}

// -----

// input 2 in 0..9
func.func @scatter_add(%c: tensor<9x6xf32>, %u: tensor<20x6xf32>, %i: tensor<20xi64>) -> (tensor<9x6xf32>) {
  %1 = lpu_graph.scatter "add" %u, %c[%i] dims <[0]> at 0 : tensor<20x6xf32>, tensor<9x6xf32>[tensor<20xi64>] -> tensor<9x6xf32>
  func.return %1 : tensor<9x6xf32>
}

// -----

// input 2 in 0..9
func.func @scatter_add_bf16(%c: tensor<9xbf16>, %u: tensor<20xbf16>, %i: tensor<20xi64>) -> (tensor<9xbf16>) {
  %1 = lpu_graph.scatter "add" %u, %c[%i] dims <[0]> at 0 : tensor<20xbf16>, tensor<9xbf16>[tensor<20xi64>] -> tensor<9xbf16>
  func.return %1 : tensor<9xbf16>
}

// -----

// input 2 in 0..9
// input 3 in 0..6
func.func @scatter_elem(%c: tensor<9x6xf32>, %u: tensor<4xf32>, %i: tensor<4xi64>, %j: tensor<4xi64>) -> (tensor<9x6xf32>) {
  %1 = lpu_graph.scatter "add" %u, %c[%i, %j] dims <[0, 1]> at 0 : tensor<4xf32>, tensor<9x6xf32>[tensor<4xi64>, tensor<4xi64>] -> tensor<9x6xf32>
  func.return %1 : tensor<9x6xf32>
}

// -----

func.func @argmax(%x: tensor<30x70xf32>) -> (tensor<30xi64>) {
  %1 = lpu_graph.arg_reduce "max" %x dim 1 : tensor<30x70xf32> -> tensor<30xi64>
  func.return %1 : tensor<30xi64>
}

// -----

func.func @argmin0(%x: tensor<300x7xf32>) -> (tensor<7xi64>) {
  %1 = lpu_graph.arg_reduce "min" %x dim 0 : tensor<300x7xf32> -> tensor<7xi64>
  func.return %1 : tensor<7xi64>
}

// -----

// input 0 in 0..2000
func.func @argmax_long(%x: tensor<3x5000xf32>) -> (tensor<3xi64>) {
  %1 = lpu_graph.arg_reduce "max" %x dim 1 : tensor<3x5000xf32> -> tensor<3xi64>
  func.return %1 : tensor<3xi64>
}

// -----

func.func @scan(%x: tensor<30x7xf32>) -> (tensor<30x7xf32>) {
  %1 = lpu_graph.scan "add" %x dim 0 : tensor<30x7xf32> -> tensor<30x7xf32>
  func.return %1 : tensor<30x7xf32>
}

// -----

func.func @scan_i(%x: tensor<3x70xi64>) -> (tensor<3x70xi64>) {
  %1 = lpu_graph.scan "add" %x dim 1 : tensor<3x70xi64> -> tensor<3x70xi64>
  %2 = lpu_graph.pointwise "mul"(%1, %x) : tensor<3x70xi64>, tensor<3x70xi64> -> tensor<3x70xi64>
  func.return %2 : tensor<3x70xi64>
}

// -----

func.func @scan_long(%x: tensor<2x3000xf32>) -> (tensor<2x3000xf32>) {
  %1 = lpu_graph.scan "add" %x dim 1 : tensor<2x3000xf32> -> tensor<2x3000xf32>
  func.return %1 : tensor<2x3000xf32>
}

// -----

func.func @iota_full(%x: tensor<4x5xi64>) -> (tensor<4x5xi64>, tensor<5xi64>, tensor<4x5xi64>) {
  %0 = lpu_graph.iota 1 : tensor<4x5xi64>
  %f = lpu_graph.full 3 : i64 : tensor<5xi64>
  %1 = lpu_graph.pointwise "mul"(%x, %0) : tensor<4x5xi64>, tensor<4x5xi64> -> tensor<4x5xi64>
  %2 = lpu_graph.pointwise "sub"(%1, %f) : tensor<4x5xi64>, tensor<5xi64> -> tensor<4x5xi64>
  func.return %2, %f, %0 : tensor<4x5xi64>, tensor<5xi64>, tensor<4x5xi64>
}

// -----

// approximate
func.func @softmax(%x: tensor<8x40xf32>) -> (tensor<8x40xf32>) {
  %0 = lpu_graph.reduce "max" %x dims <[1]> : tensor<8x40xf32> -> tensor<8xf32>
  %1 = lpu_graph.reshape %0 : tensor<8xf32> -> tensor<8x1xf32>
  %2 = lpu_graph.pointwise "sub"(%x, %1) : tensor<8x40xf32>, tensor<8x1xf32> -> tensor<8x40xf32>
  %3 = lpu_graph.pointwise "exp"(%2) : tensor<8x40xf32> -> tensor<8x40xf32>
  %4 = lpu_graph.reduce "add" %3 dims <[1]> : tensor<8x40xf32> -> tensor<8xf32>
  %5 = lpu_graph.reshape %4 : tensor<8xf32> -> tensor<8x1xf32>
  %6 = lpu_graph.pointwise "div"(%3, %5) : tensor<8x40xf32>, tensor<8x1xf32> -> tensor<8x40xf32>
  func.return %6 : tensor<8x40xf32>
}

// -----

// input 2 in 0..32
func.func @scatter_of_computed(%c: tensor<32x8xf32>, %u: tensor<1x8xf32>, %i: tensor<1xi64>) -> (tensor<32x8xf32>) {
  %0 = lpu_graph.pointwise "neg"(%c) : tensor<32x8xf32> -> tensor<32x8xf32>
  %1 = lpu_graph.scatter "replace" %u, %0[%i] dims <[0]> at 0 : tensor<1x8xf32>, tensor<32x8xf32>[tensor<1xi64>] -> tensor<32x8xf32>
  %2 = lpu_graph.pointwise "add"(%0, %1) : tensor<32x8xf32>, tensor<32x8xf32> -> tensor<32x8xf32>
  func.return %2 : tensor<32x8xf32>
}

// -----

// input 2 in 0..32
func.func @scatter_view_src(%c: tensor<8x32xf32>, %u: tensor<1x8xf32>, %i: tensor<1xi64>) -> (tensor<32x8xf32>) {
  %0 = lpu_graph.transpose %c <[1, 0]> : tensor<8x32xf32> -> tensor<32x8xf32>
  %1 = lpu_graph.scatter "replace" %u, %0[%i] dims <[0]> at 0 : tensor<1x8xf32>, tensor<32x8xf32>[tensor<1xi64>] -> tensor<32x8xf32>
  func.return %1 : tensor<32x8xf32>
}

// -----

func.func @ret_arg(%a: tensor<6xf32>) -> (tensor<6xf32>, tensor<6xf32>) {
  func.return %a, %a : tensor<6xf32>, tensor<6xf32>
}

// -----

func.func @ret_dup(%a: tensor<6xf32>) -> (tensor<6xf32>, tensor<6xf32>) {
  %0 = lpu_graph.pointwise "neg"(%a) : tensor<6xf32> -> tensor<6xf32>
  func.return %0, %0 : tensor<6xf32>, tensor<6xf32>
}

// -----

func.func @ret_view(%a: tensor<6x4xf32>) -> (tensor<4x6xf32>, tensor<24xf32>) {
  %0 = lpu_graph.transpose %a <[1, 0]> : tensor<6x4xf32> -> tensor<4x6xf32>
  %1 = lpu_graph.reshape %0 : tensor<4x6xf32> -> tensor<24xf32>
  func.return %0, %1 : tensor<4x6xf32>, tensor<24xf32>
}

// -----

func.func @strided_in(%a: tensor<6x4xf32> {lpu.strides = #lpu.shape<[1, 6]>}, %b: tensor<6x4xf32>) -> (tensor<6x4xf32>) {
  %0 = lpu_graph.pointwise "add"(%a, %b) : tensor<6x4xf32>, tensor<6x4xf32> -> tensor<6x4xf32>
  func.return %0 : tensor<6x4xf32>
}

// -----

func.func @padded_in(%a: tensor<6x4xf32> {lpu.strides = #lpu.shape<[10, 2]>}) -> (tensor<24xf32>) {
  %0 = lpu_graph.reshape %a : tensor<6x4xf32> -> tensor<24xf32>
  %1 = lpu_graph.pointwise "neg"(%0) : tensor<24xf32> -> tensor<24xf32>
  func.return %1 : tensor<24xf32>
}

// -----

func.func @empty(%a: tensor<0x4xf32>) -> (tensor<0x4xf32>, tensor<4xf32>) {
  %0 = lpu_graph.pointwise "neg"(%a) : tensor<0x4xf32> -> tensor<0x4xf32>
  %1 = lpu_graph.reduce "add" %a dims <[0]> : tensor<0x4xf32> -> tensor<4xf32>
  func.return %0, %1 : tensor<0x4xf32>, tensor<4xf32>
}

// -----

func.func @empty_reshape(%a: tensor<0x4xf32>) -> (tensor<3x0x2xf32>) {
  %0 = lpu_graph.reshape %a : tensor<0x4xf32> -> tensor<3x0x2xf32>
  %1 = lpu_graph.pointwise "neg"(%0) : tensor<3x0x2xf32> -> tensor<3x0x2xf32>
  func.return %1 : tensor<3x0x2xf32>
}

// -----

func.func @reshape_odd(%a: tensor<4x6xf32>) -> (tensor<3x8xf32>) {
  %0 = lpu_graph.reshape %a : tensor<4x6xf32> -> tensor<3x8xf32>
  %1 = lpu_graph.pointwise "neg"(%0) : tensor<3x8xf32> -> tensor<3x8xf32>
  func.return %1 : tensor<3x8xf32>
}

// -----

func.func @reshape_of_transpose(%a: tensor<4x6xf32>) -> (tensor<3x8xf32>) {
  %t = lpu_graph.transpose %a <[1, 0]> : tensor<4x6xf32> -> tensor<6x4xf32>
  %0 = lpu_graph.reshape %t : tensor<6x4xf32> -> tensor<3x8xf32>
  %1 = lpu_graph.pointwise "neg"(%0) : tensor<3x8xf32> -> tensor<3x8xf32>
  func.return %1 : tensor<3x8xf32>
}

// -----

func.func @reshape_of_slice(%a: tensor<4x9xf32>) -> (tensor<3x8xf32>) {
  %t = lpu_graph.slice %a starts <[0, 1]> steps <[1, 1]> : tensor<4x9xf32> -> tensor<4x6xf32>
  %0 = lpu_graph.reshape %t : tensor<4x6xf32> -> tensor<3x8xf32>
  %1 = lpu_graph.pointwise "neg"(%0) : tensor<3x8xf32> -> tensor<3x8xf32>
  func.return %1 : tensor<3x8xf32>
}

// -----

func.func @reshape_reduce(%a: tensor<4x9xf32>) -> (tensor<6xf32>) {
  %0 = lpu_graph.reshape %a : tensor<4x9xf32> -> tensor<6x6xf32>
  %1 = lpu_graph.reduce "add" %0 dims <[1]> : tensor<6x6xf32> -> tensor<6xf32>
  func.return %1 : tensor<6xf32>
}

// -----

// A norm, two products with its result, their gate, and the way back.
// Nothing cancels, so that rounding stays in the last places.
// input 0 in 0..3
// input 2 in 0..3
// input 3 in 0..3
// input 4 in 0..3
// approximate
func.func @mlp(%x: tensor<3x16xf32>, %n: tensor<16xf32>, %g: tensor<40x16xf32>, %u: tensor<40x16xf32>, %d: tensor<16x40xf32>) -> tensor<3x16xf32> {
  %0 = lpu_graph.pointwise "mul"(%x, %x) : tensor<3x16xf32>, tensor<3x16xf32> -> tensor<3x16xf32>
  %1 = lpu_graph.reduce "add" %0 dims <[1]> : tensor<3x16xf32> -> tensor<3xf32>
  %c = lpu_graph.full 16.0 : f32 : tensor<f32>
  %2 = lpu_graph.pointwise "div"(%1, %c) : tensor<3xf32>, tensor<f32> -> tensor<3xf32>
  %3 = lpu_graph.pointwise "rsqrt"(%2) : tensor<3xf32> -> tensor<3xf32>
  %4 = lpu_graph.reshape %3 : tensor<3xf32> -> tensor<3x1xf32>
  %5 = lpu_graph.pointwise "mul"(%x, %4) : tensor<3x16xf32>, tensor<3x1xf32> -> tensor<3x16xf32>
  %6 = lpu_graph.pointwise "mul"(%5, %n) : tensor<3x16xf32>, tensor<16xf32> -> tensor<3x16xf32>
  %7 = lpu_graph.matmul %6, %g transpose [false, true] : tensor<3x16xf32>, tensor<40x16xf32> -> tensor<3x40xf32>
  %8 = lpu_graph.matmul %6, %u transpose [false, true] : tensor<3x16xf32>, tensor<40x16xf32> -> tensor<3x40xf32>
  %9 = lpu_graph.pointwise "sigmoid"(%7) : tensor<3x40xf32> -> tensor<3x40xf32>
  %10 = lpu_graph.pointwise "mul"(%7, %9) : tensor<3x40xf32>, tensor<3x40xf32> -> tensor<3x40xf32>
  %11 = lpu_graph.pointwise "mul"(%10, %8) : tensor<3x40xf32>, tensor<3x40xf32> -> tensor<3x40xf32>
  %12 = lpu_graph.matmul %11, %d transpose [false, true] : tensor<3x40xf32>, tensor<16x40xf32> -> tensor<3x16xf32>
  %13 = lpu_graph.pointwise "add"(%12, %x) : tensor<3x16xf32>, tensor<3x16xf32> -> tensor<3x16xf32>
  func.return %13 : tensor<3x16xf32>
}

// -----

// A fold within a fold over two dims, of which the inner one depends on one.
func.func @fold_in_fold(%x: tensor<3x5xf32>, %y: tensor<3x4xf32>, %w: tensor<4xf32>) -> tensor<f32> {
  %0 = lpu_graph.pointwise "add"(%y, %w) : tensor<3x4xf32>, tensor<4xf32> -> tensor<3x4xf32>
  %1 = lpu_graph.reduce "add" %0 dims <[1]> : tensor<3x4xf32> -> tensor<3xf32>
  %2 = lpu_graph.reshape %1 : tensor<3xf32> -> tensor<3x1xf32>
  %3 = lpu_graph.pointwise "sub"(%x, %2) : tensor<3x5xf32>, tensor<3x1xf32> -> tensor<3x5xf32>
  %4 = lpu_graph.reduce "max" %3 dims <[0, 1]> : tensor<3x5xf32> -> tensor<f32>
  func.return %4 : tensor<f32>
}

// -----

func.func private @layer(%x: tensor<3x4xf32>, %w: tensor<4x4xf32>, %n: tensor<i64>) -> tensor<3x4xf32> {
  %0 = lpu_graph.matmul %x, %w transpose [false, true] : tensor<3x4xf32>, tensor<4x4xf32> -> tensor<3x4xf32>
  %1 = lpu_graph.full 1 : i64 : tensor<i64>
  %2 = lpu_graph.pointwise "add"(%n, %1) : tensor<i64>, tensor<i64> -> tensor<i64>
  lpu_graph.write_back %2, %n : tensor<i64>, tensor<i64>
  func.return %0 : tensor<3x4xf32>
}
func.func @calls(%x: tensor<3x4xf32>, %v: tensor<4x4xf32>, %w: tensor<4x4xf32>, %m: tensor<i64>, %n: tensor<i64>) -> tensor<3x4xf32> {
  %0 = func.call @layer(%x, %v, %m) : (tensor<3x4xf32>, tensor<4x4xf32>, tensor<i64>) -> tensor<3x4xf32>
  %1 = func.call @layer(%0, %w, %n) : (tensor<3x4xf32>, tensor<4x4xf32>, tensor<i64>) -> tensor<3x4xf32>
  func.return %1 : tensor<3x4xf32>
}

// -----

func.func @host_call(%x: tensor<3x4xf32>) -> (tensor<3x4xf32>, tensor<3x4xi64>) {
  %0 = lpu_graph.pointwise "neg"(%x) : tensor<3x4xf32> -> tensor<3x4xf32>
  %1, %2 = "lpu.host_call"(%0) <{overload = "aten.sort.stable", arguments = {"0" = #lpu.operand<0>, stable = true}, reason = "not native"}> : (tensor<3x4xf32>) -> (tensor<3x4xf32>, tensor<3x4xi64>)
  %3 = lpu_graph.pointwise "neg"(%1) : tensor<3x4xf32> -> tensor<3x4xf32>
  func.return %3, %2 : tensor<3x4xf32>, tensor<3x4xi64>
}

// -----

// Neither operand fits in one tile of the small target, nor does a row.
func.func @long_rows(%x: tensor<2x5000xf32>, %y: tensor<5000xf32>) -> (tensor<2xf32>, tensor<2x5000xf32>) {
  %0 = lpu_graph.pointwise "add"(%x, %y) : tensor<2x5000xf32>, tensor<5000xf32> -> tensor<2x5000xf32>
  %1 = lpu_graph.reduce "min" %0 dims <[1]> : tensor<2x5000xf32> -> tensor<2xf32>
  func.return %1, %0 : tensor<2xf32>, tensor<2x5000xf32>
}

// -----

// The result of a concat, cut where its pieces do not meet.
func.func @slice_of_concat(%x: tensor<5x4xf32>, %y: tensor<3x4xf32>) -> tensor<4x4xf32> {
  %0 = lpu_graph.concat %x, %y dim 0 : tensor<5x4xf32>, tensor<3x4xf32> -> tensor<8x4xf32>
  %1 = lpu_graph.slice %0 starts <[6, 0]> steps <[-1, 1]> : tensor<8x4xf32> -> tensor<4x4xf32>
  %2 = lpu_graph.pointwise "neg"(%1) : tensor<4x4xf32> -> tensor<4x4xf32>
  func.return %2 : tensor<4x4xf32>
}
