// RUN: lpu-opt %s | lpu-opt | filecheck %s
// RUN: lpu-opt --print-op-generic %s | lpu-opt | filecheck %s

// CHECK: %x, %y, %row = "test.op"() : () -> (tensor<3x4xf32>, tensor<3x4xf32>, tensor<4xf32>)
%x, %y, %row = "test.op"() : () -> (tensor<3x4xf32>, tensor<3x4xf32>, tensor<4xf32>)
// CHECK-NEXT: %n, %m, %b = "test.op"() : () -> (tensor<3x4xi64>, tensor<3x4xui8>, tensor<3x4xi1>)
%n, %m, %b = "test.op"() : () -> (tensor<3x4xi64>, tensor<3x4xui8>, tensor<3x4xi1>)
// CHECK-NEXT: %sx = "test.op"() : () -> tensor<?x4xf32, #lpu.shape<[s0, 4]>>
%sx = "test.op"() : () -> tensor<?x4xf32, #lpu.shape<[s0, 4]>>

// Creation.
// CHECK-NEXT: %f = lpu_graph.full 1.000000e+00 : f32 : tensor<2x3xf32>
%f = lpu_graph.full 1.0 : f32 : tensor<2x3xf32>
// CHECK-NEXT: %fi = lpu_graph.full -1 : i64 : tensor<i64>
%fi = lpu_graph.full -1 : i64 : tensor<i64>
// CHECK-NEXT: %fu = lpu_graph.full 255 : ui8 : tensor<2xui8>
%fu = lpu_graph.full 255 : ui8 : tensor<2xui8>
// CHECK-NEXT: %fb = lpu_graph.full true : tensor<?xi1, #lpu.shape<[s0]>>
%fb = lpu_graph.full true : tensor<?xi1, #lpu.shape<[s0]>>
// CHECK-NEXT: %e = lpu_graph.extent <24 * s0 + 1> : tensor<i64>
%e = lpu_graph.extent <24 * s0 + 1> : tensor<i64>
// CHECK-NEXT: %io = lpu_graph.iota 1 : tensor<2x?xi64, #lpu.shape<[2, s0]>>
%io = lpu_graph.iota 1 : tensor<2x?xi64, #lpu.shape<[2, s0]>>

// Element by element.
// CHECK-NEXT: %add = lpu_graph.pointwise "add"(%x, %row) : tensor<3x4xf32>, tensor<4xf32> -> tensor<3x4xf32>
%add = lpu_graph.pointwise "add"(%x, %row) : tensor<3x4xf32>, tensor<4xf32> -> tensor<3x4xf32>
// CHECK-NEXT: %lt = lpu_graph.pointwise "lt"(%x, %y) : tensor<3x4xf32>, tensor<3x4xf32> -> tensor<3x4xi1>
%lt = lpu_graph.pointwise "lt"(%x, %y) : tensor<3x4xf32>, tensor<3x4xf32> -> tensor<3x4xi1>
// CHECK-NEXT: %sel = lpu_graph.pointwise "select"(%b, %n, %n) : tensor<3x4xi1>, tensor<3x4xi64>, tensor<3x4xi64> -> tensor<3x4xi64>
%sel = lpu_graph.pointwise "select"(%b, %n, %n) : tensor<3x4xi1>, tensor<3x4xi64>, tensor<3x4xi64> -> tensor<3x4xi64>
// CHECK-NEXT: %not = lpu_graph.pointwise "not"(%b) : tensor<3x4xi1> -> tensor<3x4xi1>
%not = lpu_graph.pointwise "not"(%b) : tensor<3x4xi1> -> tensor<3x4xi1>
// CHECK-NEXT: %fma = lpu_graph.pointwise "fma"(%sx, %row, %row) : tensor<?x4xf32, #lpu.shape<[s0, 4]>>, tensor<4xf32>, tensor<4xf32> -> tensor<?x4xf32, #lpu.shape<[s0, 4]>>
%fma = lpu_graph.pointwise "fma"(%sx, %row, %row) : tensor<?x4xf32, #lpu.shape<[s0, 4]>>, tensor<4xf32>, tensor<4xf32> -> tensor<?x4xf32, #lpu.shape<[s0, 4]>>
// CHECK-NEXT: %cv = lpu_graph.convert %m : tensor<3x4xui8> -> tensor<3x4xf16>
%cv = lpu_graph.convert %m : tensor<3x4xui8> -> tensor<3x4xf16>

// Along dims.
// CHECK-NEXT: %re = lpu_graph.reduce "add" %sx dims <[0]> : tensor<?x4xf32, #lpu.shape<[s0, 4]>> -> tensor<4xf32>
%re = lpu_graph.reduce "add" %sx dims <[0]> : tensor<?x4xf32, #lpu.shape<[s0, 4]>> -> tensor<4xf32>
// CHECK-NEXT: %ra = lpu_graph.reduce "or" %b dims <[0, 1]> : tensor<3x4xi1> -> tensor<i1>
%ra = lpu_graph.reduce "or" %b dims <[0, 1]> : tensor<3x4xi1> -> tensor<i1>
// CHECK-NEXT: %am = lpu_graph.arg_reduce "max" %x dim 1 : tensor<3x4xf32> -> tensor<3xi64>
%am = lpu_graph.arg_reduce "max" %x dim 1 : tensor<3x4xf32> -> tensor<3xi64>
// CHECK-NEXT: %sc = lpu_graph.scan "mul" %x dim 0 : tensor<3x4xf32> -> tensor<3x4xf32>
%sc = lpu_graph.scan "mul" %x dim 0 : tensor<3x4xf32> -> tensor<3x4xf32>
// CHECK-NEXT: %mm = lpu_graph.matmul %x, %y transpose [false, true] : tensor<3x4xf32>, tensor<3x4xf32> -> tensor<3x3xf32>
%mm = lpu_graph.matmul %x, %y transpose [false, true] : tensor<3x4xf32>, tensor<3x4xf32> -> tensor<3x3xf32>
// CHECK-NEXT: %im, %ke = "test.op"() : () -> (tensor<1x4x9x8xf32>, tensor<6x2x3x2xf32>)
%im, %ke = "test.op"() : () -> (tensor<1x4x9x8xf32>, tensor<6x2x3x2xf32>)
// CHECK-NEXT: %cv2 = lpu_graph.conv %im, %ke strides <[2, 1]> dilations <[1, 3]> groups 2 : tensor<1x4x9x8xf32>, tensor<6x2x3x2xf32> -> tensor<1x6x4x5xf32>
%cv2 = lpu_graph.conv %im, %ke strides <[2, 1]> dilations <[1, 3]> groups 2 : tensor<1x4x9x8xf32>, tensor<6x2x3x2xf32> -> tensor<1x6x4x5xf32>
// CHECK-NEXT: %hx, %hw = "test.op"() : () -> (tensor<1x4x9xf16>, tensor<6x4x3xf16>)
%hx, %hw = "test.op"() : () -> (tensor<1x4x9xf16>, tensor<6x4x3xf16>)
// CHECK-NEXT: %cv3 = lpu_graph.conv %hx, %hw strides <[1]> dilations <[1]> groups 1 : tensor<1x4x9xf16>, tensor<6x4x3xf16> -> tensor<1x6x7xf32>
%cv3 = lpu_graph.conv %hx, %hw strides <[1]> dilations <[1]> groups 1 : tensor<1x4x9xf16>, tensor<6x4x3xf16> -> tensor<1x6x7xf32>

// Views.
// CHECK-NEXT: %wi = lpu_graph.windows %im strides <[2, 1]> dilations <[1, 3]> : tensor<1x4x9x8xf32> -> tensor<1x4x4x5x3x2xf32>
%wi = lpu_graph.windows %im strides <[2, 1]> dilations <[1, 3]> : tensor<1x4x9x8xf32> -> tensor<1x4x4x5x3x2xf32>
// CHECK-NEXT: %ws = lpu_graph.windows %sx strides <[2]> dilations <[1]> : tensor<?x4xf32, #lpu.shape<[s0, 4]>> -> tensor<?x2x2xf32, #lpu.shape<[s0, 2, 2]>>
%ws = lpu_graph.windows %sx strides <[2]> dilations <[1]> : tensor<?x4xf32, #lpu.shape<[s0, 4]>> -> tensor<?x2x2xf32, #lpu.shape<[s0, 2, 2]>>
// CHECK-NEXT: %rs = lpu_graph.reshape %sx : tensor<?x4xf32, #lpu.shape<[s0, 4]>> -> tensor<?x2xf32, #lpu.shape<[2 * s0, 2]>>
%rs = lpu_graph.reshape %sx : tensor<?x4xf32, #lpu.shape<[s0, 4]>> -> tensor<?x2xf32, #lpu.shape<[2 * s0, 2]>>
// CHECK-NEXT: %tr = lpu_graph.transpose %x <[1, 0]> : tensor<3x4xf32> -> tensor<4x3xf32>
%tr = lpu_graph.transpose %x <[1, 0]> : tensor<3x4xf32> -> tensor<4x3xf32>
// CHECK-NEXT: %bc = lpu_graph.broadcast %row : tensor<4xf32> -> tensor<2x3x4xf32>
%bc = lpu_graph.broadcast %row : tensor<4xf32> -> tensor<2x3x4xf32>
// CHECK-NEXT: %sl = lpu_graph.slice %x starts <[2, 1]> steps <[-1, 3]> : tensor<3x4xf32> -> tensor<3x1xf32>
%sl = lpu_graph.slice %x starts <[2, 1]> steps <[-1, 3]> : tensor<3x4xf32> -> tensor<3x1xf32>
// CHECK-NEXT: %ss = lpu_graph.slice %sx starts <[s0 - 1, 0]> steps <[1, 1]> : tensor<?x4xf32, #lpu.shape<[s0, 4]>> -> tensor<1x4xf32>
%ss = lpu_graph.slice %sx starts <[s0 - 1, 0]> steps <[1, 1]> : tensor<?x4xf32, #lpu.shape<[s0, 4]>> -> tensor<1x4xf32>
// CHECK-NEXT: %pd = lpu_graph.pad %x low <[1, 0]> value 0.000000e+00 : f32 : tensor<3x4xf32> -> tensor<6x4xf32>
%pd = lpu_graph.pad %x low <[1, 0]> value 0.0 : f32 : tensor<3x4xf32> -> tensor<6x4xf32>
// CHECK-NEXT: %cc = lpu_graph.concat %x, %sx dim 0 : tensor<3x4xf32>, tensor<?x4xf32, #lpu.shape<[s0, 4]>> -> tensor<?x4xf32, #lpu.shape<[s0 + 3, 4]>>
%cc = lpu_graph.concat %x, %sx dim 0 : tensor<3x4xf32>, tensor<?x4xf32, #lpu.shape<[s0, 4]>> -> tensor<?x4xf32, #lpu.shape<[s0 + 3, 4]>>

// By index.
// CHECK-NEXT: %i, %j = "test.op"() : () -> (tensor<5xi64>, tensor<5xi64>)
%i, %j = "test.op"() : () -> (tensor<5xi64>, tensor<5xi64>)
// CHECK-NEXT: %g1 = lpu_graph.gather %x[%i] dims <[0]> at 0 : tensor<3x4xf32>[tensor<5xi64>] -> tensor<5x4xf32>
%g1 = lpu_graph.gather %x[%i] dims <[0]> at 0 : tensor<3x4xf32>[tensor<5xi64>] -> tensor<5x4xf32>
// CHECK-NEXT: %g2 = lpu_graph.gather %x[%i, %j] dims <[1, 0]> at 0 : tensor<3x4xf32>[tensor<5xi64>, tensor<5xi64>] -> tensor<5xf32>
%g2 = lpu_graph.gather %x[%i, %j] dims <[1, 0]> at 0 : tensor<3x4xf32>[tensor<5xi64>, tensor<5xi64>] -> tensor<5xf32>
// CHECK-NEXT: %u = "test.op"() : () -> tensor<3x5xf32>
%u = "test.op"() : () -> tensor<3x5xf32>
// CHECK-NEXT: %s1 = lpu_graph.scatter "replace" %u, %x[%i] dims <[1]> at 1 : tensor<3x5xf32>, tensor<3x4xf32>[tensor<5xi64>] -> tensor<3x4xf32>
%s1 = lpu_graph.scatter "replace" %u, %x[%i] dims <[1]> at 1 : tensor<3x5xf32>, tensor<3x4xf32>[tensor<5xi64>] -> tensor<3x4xf32>
// CHECK-NEXT: %s2 = lpu_graph.scatter "add" %u, %x[%i] dims <[1]> at 1 : tensor<3x5xf32>, tensor<3x4xf32>[tensor<5xi64>] -> tensor<3x4xf32>
%s2 = lpu_graph.scatter "add" %u, %x[%i] dims <[1]> at 1 : tensor<3x5xf32>, tensor<3x4xf32>[tensor<5xi64>] -> tensor<3x4xf32>
// CHECK-NEXT: %s3 = lpu_graph.scatter "max" %u, %x[%i] dims <[1]> at 1 : tensor<3x5xf32>, tensor<3x4xf32>[tensor<5xi64>] -> tensor<3x4xf32>
%s3 = lpu_graph.scatter "max" %u, %x[%i] dims <[1]> at 1 : tensor<3x5xf32>, tensor<3x4xf32>[tensor<5xi64>] -> tensor<3x4xf32>

// CHECK-LABEL: func.func @write_back
func.func @write_back(%new: tensor<3x4xf32>, %cache: tensor<3x4xf32>) {
  // CHECK-NEXT: lpu_graph.write_back %new, %cache : tensor<3x4xf32>, tensor<3x4xf32>
  lpu_graph.write_back %new, %cache : tensor<3x4xf32>, tensor<3x4xf32>
  func.return
}
