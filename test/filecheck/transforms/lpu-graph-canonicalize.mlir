// RUN: lpu-opt -p canonicalize %s | filecheck %s
// RUN: lpu-opt -p canonicalize,cse,dce %s | filecheck %s --check-prefix=CLEAN

// CHECK-LABEL: func.func @identities
// CHECK-NEXT: func.return %x, %x, %x, %x, %x, %x, %x
func.func @identities(%x: tensor<3x4xf32>) -> (tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>) {
  %0 = lpu_graph.reshape %x : tensor<3x4xf32> -> tensor<3x4xf32>
  %1 = lpu_graph.transpose %x <[0, 1]> : tensor<3x4xf32> -> tensor<3x4xf32>
  %2 = lpu_graph.broadcast %x : tensor<3x4xf32> -> tensor<3x4xf32>
  %3 = lpu_graph.slice %x starts <[0, 0]> steps <[1, 1]> : tensor<3x4xf32> -> tensor<3x4xf32>
  %4 = lpu_graph.convert %x : tensor<3x4xf32> -> tensor<3x4xf32>
  %5 = lpu_graph.pad %x low <[0, 0]> value 1.0 : f32 : tensor<3x4xf32> -> tensor<3x4xf32>
  %6 = lpu_graph.concat %x dim 0 : tensor<3x4xf32> -> tensor<3x4xf32>
  func.return %0, %1, %2, %3, %4, %5, %6 : tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
}

// These keep the type, but not every element in its place.
// CHECK-LABEL: func.func @same_type_other_elements
// CHECK-NEXT: lpu_graph.transpose %x
// CHECK-NEXT: lpu_graph.slice %x
// CHECK-NEXT: lpu_graph.pad %x
// CHECK-NEXT: func.return
func.func @same_type_other_elements(%x: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) {
  %0 = lpu_graph.transpose %x <[1, 0]> : tensor<4x4xf32> -> tensor<4x4xf32>
  %1 = lpu_graph.slice %x starts <[3, 0]> steps <[-1, 1]> : tensor<4x4xf32> -> tensor<4x4xf32>
  %2 = lpu_graph.pad %x low <[1, 0]> value 1.0 : f32 : tensor<4x4xf32> -> tensor<4x4xf32>
  func.return %0, %1, %2 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}

// CHECK-LABEL: func.func @joined_views
func.func @joined_views(%x: tensor<2x3x4xf32>, %row: tensor<4xf32>) -> (tensor<24xf32>, tensor<2x3x4xf32>, tensor<3x2x4xf32>, tensor<5x6x4xf32>, tensor<2x1x2xf32>) {
  // CHECK-NEXT: %[[RESHAPED:.*]] = lpu_graph.reshape %x : tensor<2x3x4xf32> -> tensor<24xf32>
  %0 = lpu_graph.reshape %x : tensor<2x3x4xf32> -> tensor<6x4xf32>
  %1 = lpu_graph.reshape %0 : tensor<6x4xf32> -> tensor<24xf32>
  // There and back again: nothing.
  %2 = lpu_graph.reshape %1 : tensor<24xf32> -> tensor<2x3x4xf32>
  // CHECK-NEXT: %[[TRANSPOSED:.*]] = lpu_graph.transpose %x <[1, 0, 2]> : tensor<2x3x4xf32> -> tensor<3x2x4xf32>
  %3 = lpu_graph.transpose %x <[1, 2, 0]> : tensor<2x3x4xf32> -> tensor<3x4x2xf32>
  %4 = lpu_graph.transpose %3 <[0, 2, 1]> : tensor<3x4x2xf32> -> tensor<3x2x4xf32>
  // CHECK-NEXT: %[[BROADCAST:.*]] = lpu_graph.broadcast %row : tensor<4xf32> -> tensor<5x6x4xf32>
  %5 = lpu_graph.broadcast %row : tensor<4xf32> -> tensor<6x4xf32>
  %6 = lpu_graph.broadcast %5 : tensor<6x4xf32> -> tensor<5x6x4xf32>
  // Position i of the last axis was 3 - i, of which 1 + 2 * i is taken.
  // CHECK-NEXT: %[[SLICED:.*]] = lpu_graph.slice %x starts <[0, 2, 2]> steps <[1, 1, -2]> : tensor<2x3x4xf32> -> tensor<2x1x2xf32>
  %7 = lpu_graph.slice %x starts <[0, 1, 3]> steps <[1, 1, -1]> : tensor<2x3x4xf32> -> tensor<2x2x4xf32>
  %8 = lpu_graph.slice %7 starts <[0, 1, 1]> steps <[1, 1, 2]> : tensor<2x2x4xf32> -> tensor<2x1x2xf32>
  // CHECK-NEXT: func.return %[[RESHAPED]], %x, %[[TRANSPOSED]], %[[BROADCAST]], %[[SLICED]]
  func.return %1, %2, %4, %6, %8 : tensor<24xf32>, tensor<2x3x4xf32>, tensor<3x2x4xf32>, tensor<5x6x4xf32>, tensor<2x1x2xf32>
}

// A view of equal elements, with a symbol in the shape.
// CHECK-LABEL: func.func @views_of_full
func.func @views_of_full() -> tensor<3x?xf32, #lpu.shape<[3, s0]>> attributes {lpu.symbols = [#lpu.symbol<"s0", 2, 64, 8>]} {
  // CHECK-NEXT: %[[FULL:.*]] = lpu_graph.full 2.0{{.*}} : f32 : tensor<3x?xf32, #lpu.shape<[3, s0]>>
  // CHECK-NEXT: func.return %[[FULL]]
  %0 = lpu_graph.full 2.0 : f32 : tensor<f32>
  %1 = lpu_graph.reshape %0 : tensor<f32> -> tensor<1xf32>
  %2 = lpu_graph.broadcast %1 : tensor<1xf32> -> tensor<?x3xf32, #lpu.shape<[s0, 3]>>
  %3 = lpu_graph.transpose %2 <[1, 0]> : tensor<?x3xf32, #lpu.shape<[s0, 3]>> -> tensor<3x?xf32, #lpu.shape<[3, s0]>>
  func.return %3 : tensor<3x?xf32, #lpu.shape<[3, s0]>>
}

// CHECK-LABEL: func.func @matmul_transposed
func.func @matmul_transposed(%x: tensor<2x3x4xf32>, %y: tensor<2x5x4xf32>) -> (tensor<2x3x5xf32>, tensor<2x4x4xf32>, tensor<2x3x3xf32>, tensor<1x2x4x4xf32>) {
  // CHECK-NEXT: lpu_graph.matmul %x, %y transpose [false, true]
  %0 = lpu_graph.transpose %y <[0, 2, 1]> : tensor<2x5x4xf32> -> tensor<2x4x5xf32>
  %1 = lpu_graph.matmul %x, %0 transpose [false, false] : tensor<2x3x4xf32>, tensor<2x4x5xf32> -> tensor<2x3x5xf32>
  // Transposed twice is not transposed.
  // CHECK-NEXT: lpu_graph.matmul %x, %x transpose [true, false]
  %2 = lpu_graph.transpose %x <[0, 2, 1]> : tensor<2x3x4xf32> -> tensor<2x4x3xf32>
  %3 = lpu_graph.matmul %2, %2 transpose [false, true] : tensor<2x4x3xf32>, tensor<2x4x3xf32> -> tensor<2x4x4xf32>
  // CHECK-NEXT: lpu_graph.matmul %x, %x transpose [false, true]
  %4 = lpu_graph.matmul %2, %2 transpose [true, false] : tensor<2x4x3xf32>, tensor<2x4x3xf32> -> tensor<2x3x3xf32>
  // A permutation of batch axes stays.
  // CHECK-NEXT: %[[FOUR:.*]] = lpu_graph.reshape %x
  // CHECK-NEXT: %[[OTHER:.*]] = lpu_graph.transpose %[[FOUR]] <[1, 0, 3, 2]>
  // CHECK-NEXT: lpu_graph.matmul %[[OTHER]], %[[OTHER]] transpose [false, true]
  %5 = lpu_graph.reshape %x : tensor<2x3x4xf32> -> tensor<2x1x3x4xf32>
  %6 = lpu_graph.transpose %5 <[1, 0, 3, 2]> : tensor<2x1x3x4xf32> -> tensor<1x2x4x3xf32>
  %7 = lpu_graph.matmul %6, %6 transpose [false, true] : tensor<1x2x4x3xf32>, tensor<1x2x4x3xf32> -> tensor<1x2x4x4xf32>
  func.return %1, %3, %4, %7 : tensor<2x3x5xf32>, tensor<2x4x4xf32>, tensor<2x3x3xf32>, tensor<1x2x4x4xf32>
}

// CHECK-LABEL: func.func @lossless_conversions
func.func @lossless_conversions(%b: tensor<4xbf16>, %i: tensor<4xi32>, %u: tensor<4xui8>, %p: tensor<4xi1>) -> (tensor<4xbf16>, tensor<4xf16>, tensor<4xi64>, tensor<4xi1>, tensor<4xi64>) {
  // CHECK-NEXT: %[[F16:.*]] = lpu_graph.convert %b : tensor<4xbf16> -> tensor<4xf16>
  %0 = lpu_graph.convert %b : tensor<4xbf16> -> tensor<4xf32>
  %1 = lpu_graph.convert %0 : tensor<4xf32> -> tensor<4xbf16>
  %2 = lpu_graph.convert %0 : tensor<4xf32> -> tensor<4xf16>
  // CHECK-NEXT: %[[I64:.*]] = lpu_graph.convert %u : tensor<4xui8> -> tensor<4xi64>
  %3 = lpu_graph.convert %u : tensor<4xui8> -> tensor<4xbf16>
  %4 = lpu_graph.convert %3 : tensor<4xbf16> -> tensor<4xi64>
  // CHECK-NEXT: %[[I1:.*]] = lpu_graph.convert %i : tensor<4xi32> -> tensor<4xi1>
  %5 = lpu_graph.convert %i : tensor<4xi32> -> tensor<4xf64>
  %6 = lpu_graph.convert %5 : tensor<4xf64> -> tensor<4xi1>
  // CHECK-NEXT: %[[P:.*]] = lpu_graph.convert %p : tensor<4xi1> -> tensor<4xi64>
  %7 = lpu_graph.convert %p : tensor<4xi1> -> tensor<4xf16>
  %8 = lpu_graph.convert %7 : tensor<4xf16> -> tensor<4xi64>
  // CHECK-NEXT: func.return %b, %[[F16]], %[[I64]], %[[I1]], %[[P]]
  func.return %1, %2, %4, %6, %8 : tensor<4xbf16>, tensor<4xf16>, tensor<4xi64>, tensor<4xi1>, tensor<4xi64>
}

// A step that may lose something, or a float that may not fit an integer, stays.
// CHECK-LABEL: func.func @lossy_conversions
// CHECK-COUNT-12: lpu_graph.convert
func.func @lossy_conversions(%f: tensor<4xf32>, %h: tensor<4xf16>, %i: tensor<4xi32>, %s: tensor<4xi8>, %b: tensor<4xbf16>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf64>, tensor<4xi8>, tensor<4xi32>) {
  %0 = lpu_graph.convert %f : tensor<4xf32> -> tensor<4xbf16>
  %1 = lpu_graph.convert %0 : tensor<4xbf16> -> tensor<4xf32>
  %2 = lpu_graph.convert %h : tensor<4xf16> -> tensor<4xbf16>
  %3 = lpu_graph.convert %2 : tensor<4xbf16> -> tensor<4xf32>
  %4 = lpu_graph.convert %i : tensor<4xi32> -> tensor<4xf32>
  %5 = lpu_graph.convert %4 : tensor<4xf32> -> tensor<4xf64>
  %6 = lpu_graph.convert %i : tensor<4xi32> -> tensor<4xf64>
  %7 = lpu_graph.convert %6 : tensor<4xf64> -> tensor<4xi8>
  %8 = lpu_graph.convert %s : tensor<4xi8> -> tensor<4xui8>
  %9 = lpu_graph.convert %8 : tensor<4xui8> -> tensor<4xi32>
  %10 = lpu_graph.convert %b : tensor<4xbf16> -> tensor<4xf16>
  %11 = lpu_graph.convert %10 : tensor<4xf16> -> tensor<4xf32>
  func.return %1, %11, %3, %5, %7, %9 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf64>, tensor<4xi8>, tensor<4xi32>
}

// CHECK-LABEL: func.func @neutral_numbers
// CHECK-NEXT: %[[WIDE:.*]] = lpu_graph.broadcast %x : tensor<4xf32> -> tensor<3x4xf32>
// CHECK-NEXT: func.return %x, %x, %x, %x, %n, %n, %[[WIDE]]
func.func @neutral_numbers(%x: tensor<4xf32>, %n: tensor<4xi64>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xi64>, tensor<4xi64>, tensor<3x4xf32>) {
  %one = lpu_graph.full 1.0 : f32 : tensor<f32>
  %zero = lpu_graph.full 0.0 : f32 : tensor<f32>
  %minus_zero = lpu_graph.full -0.0 : f32 : tensor<f32>
  %no = lpu_graph.full 0 : i64 : tensor<i64>
  %0 = lpu_graph.pointwise "mul"(%one, %x) : tensor<f32>, tensor<4xf32> -> tensor<4xf32>
  %1 = lpu_graph.pointwise "div"(%x, %one) : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %2 = lpu_graph.pointwise "add"(%x, %minus_zero) : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %3 = lpu_graph.pointwise "sub"(%x, %zero) : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %4 = lpu_graph.pointwise "add"(%no, %n) : tensor<i64>, tensor<4xi64> -> tensor<4xi64>
  %5 = lpu_graph.pointwise "sub"(%n, %no) : tensor<4xi64>, tensor<i64> -> tensor<4xi64>
  %ones = lpu_graph.broadcast %one : tensor<f32> -> tensor<3x4xf32>
  %6 = lpu_graph.pointwise "mul"(%x, %ones) : tensor<4xf32>, tensor<3x4xf32> -> tensor<3x4xf32>
  func.return %0, %1, %2, %3, %4, %5, %6 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xi64>, tensor<4xi64>, tensor<3x4xf32>
}

// A positive zero makes -0.0 positive; times zero, NaN and infinity remain; the other side counts.
// CHECK-LABEL: func.func @not_neutral
// CHECK: "add"(%x, %zero)
// CHECK: "sub"(%x, %minus_zero)
// CHECK: "mul"(%x, %zero)
// CHECK: "div"(%one, %x)
// CHECK: "sub"(%zero, %x)
func.func @not_neutral(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %one = lpu_graph.full 1.0 : f32 : tensor<f32>
  %zero = lpu_graph.full 0.0 : f32 : tensor<f32>
  %minus_zero = lpu_graph.full -0.0 : f32 : tensor<f32>
  %0 = lpu_graph.pointwise "add"(%x, %zero) : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %1 = lpu_graph.pointwise "sub"(%x, %minus_zero) : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %2 = lpu_graph.pointwise "mul"(%x, %zero) : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %3 = lpu_graph.pointwise "div"(%one, %x) : tensor<f32>, tensor<4xf32> -> tensor<4xf32>
  %4 = lpu_graph.pointwise "sub"(%zero, %x) : tensor<f32>, tensor<4xf32> -> tensor<4xf32>
  func.return %0, %1, %2, %3, %4 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// CHECK-LABEL: func.func @booleans
// CHECK-NEXT: %[[FALSE:.*]] = lpu_graph.full false : tensor<4xi1>
// CHECK-NEXT: %[[TRUE:.*]] = lpu_graph.full true : tensor<4xi1>
// CHECK-NEXT: func.return %p, %p, %[[FALSE]], %[[TRUE]]
func.func @booleans(%p: tensor<4xi1>) -> (tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>) {
  %true = lpu_graph.full true : tensor<i1>
  %false = lpu_graph.full false : tensor<i1>
  %0 = lpu_graph.pointwise "and"(%p, %true) : tensor<4xi1>, tensor<i1> -> tensor<4xi1>
  %1 = lpu_graph.pointwise "or"(%false, %p) : tensor<i1>, tensor<4xi1> -> tensor<4xi1>
  %2 = lpu_graph.pointwise "and"(%p, %false) : tensor<4xi1>, tensor<i1> -> tensor<4xi1>
  %3 = lpu_graph.pointwise "or"(%p, %true) : tensor<4xi1>, tensor<i1> -> tensor<4xi1>
  func.return %0, %1, %2, %3 : tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>
}

// On integers, and and or work on bits: 1 is not neutral.
// CHECK-LABEL: func.func @bits
// CHECK: "and"(%n, %one)
func.func @bits(%n: tensor<4xi64>) -> tensor<4xi64> {
  %one = lpu_graph.full 1 : i64 : tensor<i64>
  %0 = lpu_graph.pointwise "and"(%n, %one) : tensor<4xi64>, tensor<i64> -> tensor<4xi64>
  func.return %0 : tensor<4xi64>
}

// CHECK-LABEL: func.func @selects
// CHECK-NEXT: %[[WIDE:.*]] = lpu_graph.broadcast %y : tensor<f32> -> tensor<4xf32>
// CHECK-NEXT: %[[SELECT:.*]] = lpu_graph.pointwise "select"(%p, %x, %y)
// CHECK-NEXT: func.return %x, %[[WIDE]], %x, %[[SELECT]]
func.func @selects(%p: tensor<4xi1>, %x: tensor<4xf32>, %y: tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %true = lpu_graph.full true : tensor<i1>
  %false = lpu_graph.full false : tensor<4xi1>
  %0 = lpu_graph.pointwise "select"(%true, %x, %y) : tensor<i1>, tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %1 = lpu_graph.pointwise "select"(%false, %x, %y) : tensor<4xi1>, tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %2 = lpu_graph.pointwise "select"(%p, %x, %x) : tensor<4xi1>, tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %3 = lpu_graph.pointwise "select"(%p, %x, %y) : tensor<4xi1>, tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  func.return %0, %1, %2, %3 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// What xDSL's own passes remove and keep: the second exp is the first, sin has no use; write-backs,
// calls, host calls and functions have effects; 0.0 is not -0.0.
// CLEAN-LABEL: func.func @effects
// CLEAN-NEXT: %[[EXP:.*]] = lpu_graph.pointwise "exp"(%x)
// CLEAN-NEXT: lpu_graph.write_back %[[EXP]], %x
// CLEAN-NEXT: lpu_graph.write_back %[[EXP]], %y
// CLEAN-COUNT-2: "lpu.host_call"()
// CLEAN-COUNT-2: func.call @called()
// CLEAN-NEXT: %[[ZERO:.*]] = lpu_graph.full 0.0
// CLEAN-NEXT: %[[MINUS_ZERO:.*]] = lpu_graph.full -0.0
// CLEAN-NEXT: func.return %[[ZERO]], %[[MINUS_ZERO]]
// CLEAN: func.func private @called
func.func @effects(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<f32>, tensor<f32>) {
  %0 = lpu_graph.pointwise "exp"(%x) : tensor<4xf32> -> tensor<4xf32>
  %1 = lpu_graph.pointwise "exp"(%x) : tensor<4xf32> -> tensor<4xf32>
  %2 = lpu_graph.pointwise "sin"(%x) : tensor<4xf32> -> tensor<4xf32>
  lpu_graph.write_back %0, %x : tensor<4xf32>, tensor<4xf32>
  lpu_graph.write_back %1, %y : tensor<4xf32>, tensor<4xf32>
  %3 = "lpu.host_call"() <{overload = "aten.rand.default", arguments = {}, reason = "random"}> : () -> tensor<f32>
  %4 = "lpu.host_call"() <{overload = "aten.rand.default", arguments = {}, reason = "random"}> : () -> tensor<f32>
  %5 = func.call @called() : () -> tensor<f32>
  %6 = func.call @called() : () -> tensor<f32>
  %7 = lpu_graph.full 0.0 : f32 : tensor<f32>
  %8 = lpu_graph.full -0.0 : f32 : tensor<f32>
  func.return %7, %8 : tensor<f32>, tensor<f32>
}
func.func private @called() -> tensor<f32> {
  %0 = "lpu.host_call"() <{overload = "aten.rand.default", arguments = {}, reason = "random"}> : () -> tensor<f32>
  func.return %0 : tensor<f32>
}
