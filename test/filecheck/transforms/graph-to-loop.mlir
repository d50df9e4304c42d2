// RUN: lpu-opt -p graph-to-loop %s | filecheck %s

// Views cost no nest: the reader looks through all of them.
// CHECK-LABEL: func.func @views(
// CHECK-NEXT:   %[[V0:\d+]] = lpu_loop.empty : tensor<2x6xf32>
// CHECK-NEXT:   %[[V1:\d+]] = lpu_loop.nest [d0 = 2, d1 = 6] outs(%[[V0]] : tensor<2x6xf32>) {
// CHECK-NEXT:     %[[V2:\d+]] = lpu_loop.load %x[-d1 + 3 * (d1 floordiv 3) + 2, 2 * d0 + (d1 floordiv 3)] : tensor<3x4xf32>
// CHECK-NEXT:     %[[V3:\d+]] = arith.negf %[[V2]] : f32
// CHECK-NEXT:     lpu_loop.store "replace" %[[V3]], %[[V0]][d0, d1] : f32, tensor<2x6xf32>
// CHECK-NEXT:   } -> tensor<2x6xf32>
// CHECK-NEXT:   func.return %[[V1]] : tensor<2x6xf32>
func.func @views(%x: tensor<3x4xf32>) -> tensor<2x6xf32> {
  %0 = lpu_graph.transpose %x <[1, 0]> : tensor<3x4xf32> -> tensor<4x3xf32>
  %1 = lpu_graph.slice %0 starts <[0, 2]> steps <[1, -1]> : tensor<4x3xf32> -> tensor<4x3xf32>
  %2 = lpu_graph.reshape %1 : tensor<4x3xf32> -> tensor<2x6xf32>
  %3 = lpu_graph.pointwise "neg"(%2) : tensor<2x6xf32> -> tensor<2x6xf32>
  func.return %3 : tensor<2x6xf32>
}

// A reshape and its inverse leave no trace.
// CHECK-LABEL: func.func @reshape_and_back(
// CHECK-NEXT:   %[[V0:\d+]] = lpu_loop.empty : tensor<4x6xf32>
// CHECK-NEXT:   %[[V1:\d+]] = lpu_loop.nest [d0 = 4, d1 = 6] outs(%[[V0]] : tensor<4x6xf32>) {
// CHECK-NEXT:     %[[V2:\d+]] = lpu_loop.load %x[d0, d1] : tensor<4x6xf32>
// CHECK-NEXT:     %[[V3:\d+]] = arith.negf %[[V2]] : f32
// CHECK-NEXT:     lpu_loop.store "replace" %[[V3]], %[[V0]][d0, d1] : f32, tensor<4x6xf32>
// CHECK-NEXT:   } -> tensor<4x6xf32>
// CHECK-NEXT:   func.return %[[V1]] : tensor<4x6xf32>
func.func @reshape_and_back(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %0 = lpu_graph.reshape %x : tensor<4x6xf32> -> tensor<24xf32>
  %1 = lpu_graph.reshape %0 : tensor<24xf32> -> tensor<2x2x6xf32>
  %2 = lpu_graph.reshape %1 : tensor<2x2x6xf32> -> tensor<4x6xf32>
  %3 = lpu_graph.pointwise "neg"(%2) : tensor<4x6xf32> -> tensor<4x6xf32>
  func.return %3 : tensor<4x6xf32>
}

// What is returned must be a tensor of its own; an argument is one.
// CHECK-LABEL: func.func @returned_view(
// CHECK-NEXT:   %[[V0:\d+]] = lpu_loop.empty : tensor<4x3xf32>
// CHECK-NEXT:   %[[V1:\d+]] = lpu_loop.nest [d0 = 4, d1 = 3] outs(%[[V0]] : tensor<4x3xf32>) {
// CHECK-NEXT:     %[[V2:\d+]] = lpu_loop.load %x[d1, d0] : tensor<3x4xf32>
// CHECK-NEXT:     lpu_loop.store "replace" %[[V2]], %[[V0]][d0, d1] : f32, tensor<4x3xf32>
// CHECK-NEXT:   } -> tensor<4x3xf32>
// CHECK-NEXT:   func.return %[[V1]], %x : tensor<4x3xf32>, tensor<3x4xf32>
func.func @returned_view(%x: tensor<3x4xf32>) -> (tensor<4x3xf32>, tensor<3x4xf32>) {
  %0 = lpu_graph.transpose %x <[1, 0]> : tensor<3x4xf32> -> tensor<4x3xf32>
  func.return %0, %x : tensor<4x3xf32>, tensor<3x4xf32>
}

// CHECK-LABEL: func.func @broadcasting(
// CHECK-NEXT:   %[[V0:\d+]] = lpu_loop.empty : tensor<3x4xf32>
// CHECK-NEXT:   %[[V1:\d+]] = lpu_loop.nest [d0 = 3, d1 = 4] outs(%[[V0]] : tensor<3x4xf32>) {
// CHECK-NEXT:     %[[V2:\d+]] = lpu_loop.load %x[d0, 0] : tensor<3x1xf32>
// CHECK-NEXT:     %[[V3:\d+]] = lpu_loop.load %y[d1] : tensor<4xf32>
// CHECK-NEXT:     %[[V4:\d+]] = lpu_loop.load %z[] : tensor<f32>
// CHECK-NEXT:     %[[V5:\d+]] = math.fma %[[V2]], %[[V3]], %[[V4]] : f32
// CHECK-NEXT:     lpu_loop.store "replace" %[[V5]], %[[V0]][d0, d1] : f32, tensor<3x4xf32>
// CHECK-NEXT:   } -> tensor<3x4xf32>
// CHECK-NEXT:   func.return %[[V1]] : tensor<3x4xf32>
func.func @broadcasting(%x: tensor<3x1xf32>, %y: tensor<4xf32>, %z: tensor<f32>) -> tensor<3x4xf32> {
  %0 = lpu_graph.pointwise "fma"(%x, %y, %z) : tensor<3x1xf32>, tensor<4xf32>, tensor<f32> -> tensor<3x4xf32>
  func.return %0 : tensor<3x4xf32>
}

// Unsigned bytes are signless scalars.
// CHECK-LABEL: func.func @numbers(
// CHECK-NEXT:   %[[V0:\d+]] = lpu_loop.empty : tensor<2x?xi64, #lpu.shape<[2, s0]>>
// CHECK-NEXT:   %[[V1:\d+]] = lpu_loop.nest [d0 = 2, d1 = s0] outs(%[[V0]] : tensor<2x?xi64, #lpu.shape<[2, s0]>>) {
// CHECK-NEXT:     %[[V2:\d+]] = lpu_loop.index d1 : i64
// CHECK-NEXT:     lpu_loop.store "replace" %[[V2]], %[[V0]][d0, d1] : i64, tensor<2x?xi64, #lpu.shape<[2, s0]>>
// CHECK-NEXT:   } -> tensor<2x?xi64, #lpu.shape<[2, s0]>>
// CHECK-NEXT:   %[[V3:\d+]] = lpu_loop.empty : tensor<i64>
// CHECK-NEXT:   %[[V4:\d+]] = lpu_loop.nest [] outs(%[[V3]] : tensor<i64>) {
// CHECK-NEXT:     %[[V5:\d+]] = lpu_loop.index 2 * s0 + 1 : i64
// CHECK-NEXT:     lpu_loop.store "replace" %[[V5]], %[[V3]][] : i64, tensor<i64>
// CHECK-NEXT:   } -> tensor<i64>
// CHECK-NEXT:   %[[V6:\d+]] = lpu_loop.empty : tensor<2xui8>
// CHECK-NEXT:   %[[V7:\d+]] = lpu_loop.nest [d0 = 2] outs(%[[V6]] : tensor<2xui8>) {
// CHECK-NEXT:     %[[V8:\d+]] = arith.constant -1 : i8
// CHECK-NEXT:     lpu_loop.store "replace" %[[V8]], %[[V6]][d0] : i8, tensor<2xui8>
// CHECK-NEXT:   } -> tensor<2xui8>
// CHECK-NEXT:   func.return %[[V1]], %[[V4]], %[[V7]] : tensor<2x?xi64, #lpu.shape<[2, s0]>>, tensor<i64>, tensor<2xui8>
func.func @numbers() -> (tensor<2x?xi64, #lpu.shape<[2, s0]>>, tensor<i64>, tensor<2xui8>) attributes {lpu.symbols = [#lpu.symbol<"s0", 1, 64, 8>]} {
  %0 = lpu_graph.iota 1 : tensor<2x?xi64, #lpu.shape<[2, s0]>>
  %1 = lpu_graph.extent <2 * s0 + 1> : tensor<i64>
  %2 = lpu_graph.full 255 : ui8 : tensor<2xui8>
  func.return %0, %1, %2 : tensor<2x?xi64, #lpu.shape<[2, s0]>>, tensor<i64>, tensor<2xui8>
}

// Computed in f32 and rounded once; a maximum needs no rounding.
// CHECK-LABEL: func.func @half_precision(
// CHECK-NEXT:   %[[V0:\d+]] = lpu_loop.empty : tensor<4xbf16>
// CHECK-NEXT:   %[[V1:\d+]] = lpu_loop.nest [d0 = 4] outs(%[[V0]] : tensor<4xbf16>) {
// CHECK-NEXT:     %[[V2:\d+]] = lpu_loop.load %x[d0] : tensor<4xbf16>
// CHECK-NEXT:     %[[V3:\d+]] = arith.extf %[[V2]] : bf16 to f32
// CHECK-NEXT:     %[[V4:\d+]] = lpu_loop.load %y[d0] : tensor<4xbf16>
// CHECK-NEXT:     %[[V5:\d+]] = arith.extf %[[V4]] : bf16 to f32
// CHECK-NEXT:     %[[V6:\d+]] = arith.mulf %[[V3]], %[[V5]] : f32
// CHECK-NEXT:     %[[V7:\d+]] = arith.truncf %[[V6]] : f32 to bf16
// CHECK-NEXT:     lpu_loop.store "replace" %[[V7]], %[[V0]][d0] : bf16, tensor<4xbf16>
// CHECK-NEXT:   } -> tensor<4xbf16>
// CHECK-NEXT:   %[[V8:\d+]] = lpu_loop.empty : tensor<4xbf16>
// CHECK-NEXT:   %[[V9:\d+]] = lpu_loop.nest [d0 = 4] outs(%[[V8]] : tensor<4xbf16>) {
// CHECK-NEXT:     %[[V10:\d+]] = lpu_loop.load %x[d0] : tensor<4xbf16>
// CHECK-NEXT:     %[[V11:\d+]] = lpu_loop.load %y[d0] : tensor<4xbf16>
// CHECK-NEXT:     %[[V12:\d+]] = arith.maximumf %[[V10]], %[[V11]] : bf16
// CHECK-NEXT:     lpu_loop.store "replace" %[[V12]], %[[V8]][d0] : bf16, tensor<4xbf16>
// CHECK-NEXT:   } -> tensor<4xbf16>
// CHECK-NEXT:   func.return %[[V1]], %[[V9]] : tensor<4xbf16>, tensor<4xbf16>
func.func @half_precision(%x: tensor<4xbf16>, %y: tensor<4xbf16>) -> (tensor<4xbf16>, tensor<4xbf16>) {
  %0 = lpu_graph.pointwise "mul"(%x, %y) : tensor<4xbf16>, tensor<4xbf16> -> tensor<4xbf16>
  %1 = lpu_graph.pointwise "maximum"(%x, %y) : tensor<4xbf16>, tensor<4xbf16> -> tensor<4xbf16>
  func.return %0, %1 : tensor<4xbf16>, tensor<4xbf16>
}

// CHECK-LABEL: func.func @unsigned_bytes(
// CHECK-NEXT:   %[[V0:\d+]] = lpu_loop.empty : tensor<4xi1>
// CHECK-NEXT:   %[[V1:\d+]] = lpu_loop.nest [d0 = 4] outs(%[[V0]] : tensor<4xi1>) {
// CHECK-NEXT:     %[[V2:\d+]] = lpu_loop.load %x[d0] : tensor<4xui8>
// CHECK-NEXT:     %[[V3:\d+]] = lpu_loop.load %y[d0] : tensor<4xui8>
// CHECK-NEXT:     %[[V4:\d+]] = arith.cmpi ult, %[[V2]], %[[V3]] : i8
// CHECK-NEXT:     lpu_loop.store "replace" %[[V4]], %[[V0]][d0] : i1, tensor<4xi1>
// CHECK-NEXT:   } -> tensor<4xi1>
// CHECK-NEXT:   func.return %[[V1]] : tensor<4xi1>
func.func @unsigned_bytes(%x: tensor<4xui8>, %y: tensor<4xui8>) -> tensor<4xi1> {
  %0 = lpu_graph.pointwise "lt"(%x, %y) : tensor<4xui8>, tensor<4xui8> -> tensor<4xi1>
  func.return %0 : tensor<4xi1>
}

// Accumulates in f32; dims of extent 1 have no name.
// CHECK-LABEL: func.func @sum_of_halves(
// CHECK-NEXT:   %[[V0:\d+]] = lpu_loop.empty : tensor<1xbf16>
// CHECK-NEXT:   %[[V1:\d+]] = lpu_loop.nest [] outs(%[[V0]] : tensor<1xbf16>) {
// CHECK-NEXT:     %[[V2:\d+]] = lpu_loop.fold "add" [r0 = 3, r1 = 8] : f32 {
// CHECK-NEXT:       %[[V3:\d+]] = lpu_loop.load %x[r0, 0, r1] : tensor<3x1x8xbf16>
// CHECK-NEXT:       %[[V4:\d+]] = arith.extf %[[V3]] : bf16 to f32
// CHECK-NEXT:       lpu_loop.yield %[[V4]] : f32
// CHECK-NEXT:     }
// CHECK-NEXT:     %[[V5:\d+]] = arith.truncf %[[V2]] : f32 to bf16
// CHECK-NEXT:     lpu_loop.store "replace" %[[V5]], %[[V0]][0] : bf16, tensor<1xbf16>
// CHECK-NEXT:   } -> tensor<1xbf16>
// CHECK-NEXT:   func.return %[[V1]] : tensor<1xbf16>
func.func @sum_of_halves(%x: tensor<3x1x8xbf16>) -> tensor<1xbf16> {
  %0 = lpu_graph.reduce "add" %x dims <[0, 2]> : tensor<3x1x8xbf16> -> tensor<1xbf16>
  func.return %0 : tensor<1xbf16>
}

// CHECK-LABEL: func.func @product(
// CHECK-NEXT:   %[[V0:\d+]] = lpu_loop.empty : tensor<2x3x5xbf16>
// CHECK-NEXT:   %[[V1:\d+]] = lpu_loop.nest [d0 = 2, d1 = 3, d2 = 5] outs(%[[V0]] : tensor<2x3x5xbf16>) {
// CHECK-NEXT:     %[[V2:\d+]] = lpu_loop.fold "add" [r0 = 8] : f32 {
// CHECK-NEXT:       %[[V3:\d+]] = lpu_loop.load %x[d0, d1, r0] : tensor<2x3x8xbf16>
// CHECK-NEXT:       %[[V4:\d+]] = arith.extf %[[V3]] : bf16 to f32
// CHECK-NEXT:       %[[V5:\d+]] = lpu_loop.load %w[d0, d2, r0] : tensor<2x5x8xbf16>
// CHECK-NEXT:       %[[V6:\d+]] = arith.extf %[[V5]] : bf16 to f32
// CHECK-NEXT:       %[[V7:\d+]] = arith.mulf %[[V4]], %[[V6]] : f32
// CHECK-NEXT:       lpu_loop.yield %[[V7]] : f32
// CHECK-NEXT:     }
// CHECK-NEXT:     %[[V8:\d+]] = arith.truncf %[[V2]] : f32 to bf16
// CHECK-NEXT:     lpu_loop.store "replace" %[[V8]], %[[V0]][d0, d1, d2] : bf16, tensor<2x3x5xbf16>
// CHECK-NEXT:   } -> tensor<2x3x5xbf16>
// CHECK-NEXT:   func.return %[[V1]] : tensor<2x3x5xbf16>
func.func @product(%x: tensor<2x3x8xbf16>, %w: tensor<2x5x8xbf16>) -> tensor<2x3x5xbf16> {
  %0 = lpu_graph.matmul %x, %w transpose [false, true] : tensor<2x3x8xbf16>, tensor<2x5x8xbf16> -> tensor<2x3x5xbf16>
  func.return %0 : tensor<2x3x5xbf16>
}

// CHECK-LABEL: func.func @positions_and_prefixes(
// CHECK-NEXT:   %[[V0:\d+]] = lpu_loop.empty : tensor<3xi64>
// CHECK-NEXT:   %[[V1:\d+]] = lpu_loop.nest [d0 = 3] outs(%[[V0]] : tensor<3xi64>) {
// CHECK-NEXT:     %[[V2:\d+]] = lpu_loop.arg_fold "max" [r0 = 8] : i64 {
// CHECK-NEXT:       %[[V3:\d+]] = lpu_loop.load %x[d0, r0] : tensor<3x8xf32>
// CHECK-NEXT:       lpu_loop.yield %[[V3]] : f32
// CHECK-NEXT:     }
// CHECK-NEXT:     lpu_loop.store "replace" %[[V2]], %[[V0]][d0] : i64, tensor<3xi64>
// CHECK-NEXT:   } -> tensor<3xi64>
// CHECK-NEXT:   %[[V4:\d+]] = lpu_loop.empty : tensor<3x8xf32>
// CHECK-NEXT:   %[[V5:\d+]] = lpu_loop.nest [d0 = 3, d1 = 8] outs(%[[V4]] : tensor<3x8xf32>) {
// CHECK-NEXT:     %[[V6:\d+]] = lpu_loop.scan "add" [r0 = 8] along d1 : f32 {
// CHECK-NEXT:       %[[V7:\d+]] = lpu_loop.load %x[d0, r0] : tensor<3x8xf32>
// CHECK-NEXT:       lpu_loop.yield %[[V7]] : f32
// CHECK-NEXT:     }
// CHECK-NEXT:     lpu_loop.store "replace" %[[V6]], %[[V4]][d0, d1] : f32, tensor<3x8xf32>
// CHECK-NEXT:   } -> tensor<3x8xf32>
// CHECK-NEXT:   func.return %[[V1]], %[[V5]] : tensor<3xi64>, tensor<3x8xf32>
func.func @positions_and_prefixes(%x: tensor<3x8xf32>) -> (tensor<3xi64>, tensor<3x8xf32>) {
  %0 = lpu_graph.arg_reduce "max" %x dim 1 : tensor<3x8xf32> -> tensor<3xi64>
  %1 = lpu_graph.scan "add" %x dim 1 : tensor<3x8xf32> -> tensor<3x8xf32>
  func.return %0, %1 : tensor<3xi64>, tensor<3x8xf32>
}

// Only the piece is read at each position.
// CHECK-LABEL: func.func @pieces(
// CHECK-NEXT:   %[[V0:\d+]] = lpu_loop.empty : tensor<3x6xf32>
// CHECK-NEXT:   %[[V1:\d+]] = lpu_loop.nest [d0 = 3, d1 = 6] outs(%[[V0]] : tensor<3x6xf32>) {
// CHECK-NEXT:     %[[V2:\d+]] = lpu_loop.pieces d1 at [4] : f32 {
// CHECK-NEXT:       %[[V3:\d+]] = lpu_loop.load %x[d0, d1] : tensor<3x4xf32>
// CHECK-NEXT:       lpu_loop.yield %[[V3]] : f32
// CHECK-NEXT:     } {
// CHECK-NEXT:       %[[V4:\d+]] = lpu_loop.load %y[d0, d1 - 4] : tensor<3x2xf32>
// CHECK-NEXT:       lpu_loop.yield %[[V4]] : f32
// CHECK-NEXT:     }
// CHECK-NEXT:     lpu_loop.store "replace" %[[V2]], %[[V0]][d0, d1] : f32, tensor<3x6xf32>
// CHECK-NEXT:   } -> tensor<3x6xf32>
// CHECK-NEXT:   %[[V5:\d+]] = lpu_loop.empty : tensor<5x6xf32>
// CHECK-NEXT:   %[[V6:\d+]] = lpu_loop.nest [d0 = 5, d1 = 6] outs(%[[V5]] : tensor<5x6xf32>) {
// CHECK-NEXT:     %[[V7:\d+]] = lpu_loop.pieces d0 at [2] : f32 {
// CHECK-NEXT:       %[[V8:\d+]] = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:       lpu_loop.yield %[[V8]] : f32
// CHECK-NEXT:     } {
// CHECK-NEXT:       %[[V9:\d+]] = lpu_loop.load %[[V1]][d0 - 2, d1] : tensor<3x6xf32>
// CHECK-NEXT:       lpu_loop.yield %[[V9]] : f32
// CHECK-NEXT:     }
// CHECK-NEXT:     lpu_loop.store "replace" %[[V7]], %[[V5]][d0, d1] : f32, tensor<5x6xf32>
// CHECK-NEXT:   } -> tensor<5x6xf32>
// CHECK-NEXT:   func.return %[[V6]] : tensor<5x6xf32>
func.func @pieces(%x: tensor<3x4xf32>, %y: tensor<3x2xf32>) -> tensor<5x6xf32> {
  %0 = lpu_graph.concat %x, %y dim 1 : tensor<3x4xf32>, tensor<3x2xf32> -> tensor<3x6xf32>
  %1 = lpu_graph.pad %0 low <[2, 0]> value 0.0 : f32 : tensor<3x6xf32> -> tensor<5x6xf32>
  func.return %1 : tensor<5x6xf32>
}

// CHECK-LABEL: func.func @gather(
// CHECK-NEXT:   %[[V0:\d+]] = lpu_loop.empty : tensor<3x8xf32>
// CHECK-NEXT:   %[[V1:\d+]] = lpu_loop.nest [d0 = 3, d1 = 8] outs(%[[V0]] : tensor<3x8xf32>) {
// CHECK-NEXT:     %[[V2:\d+]] = lpu_loop.load %i[d0] : tensor<3xi64>
// CHECK-NEXT:     %[[V3:\d+]] = arith.constant 0 : i64
// CHECK-NEXT:     %[[V4:\d+]] = arith.cmpi sge, %[[V2]], %[[V3]] : i64
// CHECK-NEXT:     %[[V5:\d+]] = lpu_loop.index s0 : i64
// CHECK-NEXT:     %[[V6:\d+]] = arith.cmpi slt, %[[V2]], %[[V5]] : i64
// CHECK-NEXT:     %[[V7:\d+]] = arith.andi %[[V4]], %[[V6]] : i1
// CHECK-NEXT:     lpu_loop.check %[[V7]], "IndexError", "index out of range for dimension 0 with size s0"
// CHECK-NEXT:     %[[V8:\d+]] = lpu_loop.load %t[_0, d1](%[[V2]]) : tensor<?x8xf32, #lpu.shape<[s0, 8]>>
// CHECK-NEXT:     lpu_loop.store "replace" %[[V8]], %[[V0]][d0, d1] : f32, tensor<3x8xf32>
// CHECK-NEXT:   } -> tensor<3x8xf32>
// CHECK-NEXT:   func.return %[[V1]] : tensor<3x8xf32>
func.func @gather(%t: tensor<?x8xf32, #lpu.shape<[s0, 8]>>, %i: tensor<3xi64>) -> tensor<3x8xf32> attributes {lpu.symbols = [#lpu.symbol<"s0", 1, 64, 8>]} {
  %0 = lpu_graph.gather %t[%i] dims <[0]> at 0 : tensor<?x8xf32, #lpu.shape<[s0, 8]>>[tensor<3xi64>] -> tensor<3x8xf32>
  func.return %0 : tensor<3x8xf32>
}

// The nest stores into the indexed tensor itself.
// CHECK-LABEL: func.func @scatter(
// CHECK-NEXT:   %[[V0:\d+]] = lpu_loop.nest [d0 = 3, d1 = 8] outs(%c : tensor<9x8xf32>) {
// CHECK-NEXT:     %[[V1:\d+]] = lpu_loop.load %i[d0] : tensor<3xi64>
// CHECK-NEXT:     %[[V2:\d+]] = arith.constant 0 : i64
// CHECK-NEXT:     %[[V3:\d+]] = arith.cmpi sge, %[[V1]], %[[V2]] : i64
// CHECK-NEXT:     %[[V4:\d+]] = lpu_loop.index 9 : i64
// CHECK-NEXT:     %[[V5:\d+]] = arith.cmpi slt, %[[V1]], %[[V4]] : i64
// CHECK-NEXT:     %[[V6:\d+]] = arith.andi %[[V3]], %[[V5]] : i1
// CHECK-NEXT:     lpu_loop.check %[[V6]], "IndexError", "index out of range for dimension 0 with size 9"
// CHECK-NEXT:     %[[V7:\d+]] = lpu_loop.load %u[d0, d1] : tensor<3x8xf32>
// CHECK-NEXT:     lpu_loop.store "add" %[[V7]], %c[_0, d1](%[[V1]]) : f32, tensor<9x8xf32>
// CHECK-NEXT:   } -> tensor<9x8xf32>
// CHECK-NEXT:   func.return %[[V0]] : tensor<9x8xf32>
func.func @scatter(%c: tensor<9x8xf32>, %u: tensor<3x8xf32>, %i: tensor<3xi64>) -> tensor<9x8xf32> {
  %0 = lpu_graph.scatter "add" %u, %c[%i] dims <[0]> at 0 : tensor<3x8xf32>, tensor<9x8xf32>[tensor<3xi64>] -> tensor<9x8xf32>
  func.return %0 : tensor<9x8xf32>
}

// Integers are checked for a divisor of zero, floats are not.
// CHECK-LABEL: func.func @division(
// CHECK-NEXT:   %[[V0:\d+]] = lpu_loop.empty : tensor<4xi32>
// CHECK-NEXT:   %[[V1:\d+]] = lpu_loop.nest [d0 = 4] outs(%[[V0]] : tensor<4xi32>) {
// CHECK-NEXT:     %[[V2:\d+]] = lpu_loop.load %y[d0] : tensor<4xi32>
// CHECK-NEXT:     %[[V3:\d+]] = arith.constant 0 : i32
// CHECK-NEXT:     %[[V4:\d+]] = arith.cmpi ne, %[[V2]], %[[V3]] : i32
// CHECK-NEXT:     lpu_loop.check %[[V4]], "RuntimeError", "ZeroDivisionError"
// CHECK-NEXT:     %[[V5:\d+]] = lpu_loop.load %x[d0] : tensor<4xi32>
// CHECK-NEXT:     %[[V6:\d+]] = arith.divsi %[[V5]], %[[V2]] : i32
// CHECK-NEXT:     lpu_loop.store "replace" %[[V6]], %[[V0]][d0] : i32, tensor<4xi32>
// CHECK-NEXT:   } -> tensor<4xi32>
// CHECK-NEXT:   %[[V7:\d+]] = lpu_loop.empty : tensor<4xf32>
// CHECK-NEXT:   %[[V8:\d+]] = lpu_loop.nest [d0 = 4] outs(%[[V7]] : tensor<4xf32>) {
// CHECK-NEXT:     %[[V9:\d+]] = lpu_loop.load %z[d0] : tensor<4xf32>
// CHECK-NEXT:     %[[V10:\d+]] = arith.divf %[[V9]], %[[V9]] : f32
// CHECK-NEXT:     lpu_loop.store "replace" %[[V10]], %[[V7]][d0] : f32, tensor<4xf32>
// CHECK-NEXT:   } -> tensor<4xf32>
// CHECK-NEXT:   func.return %[[V1]], %[[V8]] : tensor<4xi32>, tensor<4xf32>
func.func @division(%x: tensor<4xi32>, %y: tensor<4xi32>, %z: tensor<4xf32>) -> (tensor<4xi32>, tensor<4xf32>) {
  %0 = lpu_graph.pointwise "truncdiv"(%x, %y) : tensor<4xi32>, tensor<4xi32> -> tensor<4xi32>
  %1 = lpu_graph.pointwise "div"(%z, %z) : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  func.return %0, %1 : tensor<4xi32>, tensor<4xf32>
}

// CHECK-LABEL: func.func @calls_take_whole_tensors(
// CHECK-NEXT:   %[[V0:\d+]] = lpu_loop.empty : tensor<4x3xf32>
// CHECK-NEXT:   %[[V1:\d+]] = lpu_loop.nest [d0 = 4, d1 = 3] outs(%[[V0]] : tensor<4x3xf32>) {
// CHECK-NEXT:     %[[V2:\d+]] = lpu_loop.load %x[d1, d0] : tensor<3x4xf32>
// CHECK-NEXT:     lpu_loop.store "replace" %[[V2]], %[[V0]][d0, d1] : f32, tensor<4x3xf32>
// CHECK-NEXT:   } -> tensor<4x3xf32>
// CHECK-NEXT:   %[[V3:\d+]] = "lpu.host_call"(%[[V1]]) <{overload = "aten.sort.default", arguments = {"0" = #lpu.operand<0>}, reason = "not native"}> : (tensor<4x3xf32>) -> tensor<4x3xf32>
// CHECK-NEXT:   func.return %[[V3]] : tensor<4x3xf32>
func.func @calls_take_whole_tensors(%x: tensor<3x4xf32>) -> tensor<4x3xf32> {
  %0 = lpu_graph.transpose %x <[1, 0]> : tensor<3x4xf32> -> tensor<4x3xf32>
  %1 = "lpu.host_call"(%0) <{overload = "aten.sort.default", arguments = {"0" = #lpu.operand<0>}, reason = "not native"}> : (tensor<4x3xf32>) -> tensor<4x3xf32>
  func.return %1 : tensor<4x3xf32>
}

// CHECK-LABEL: func.func @write_back(
// CHECK-NEXT:   %[[V0:\d+]] = lpu_loop.empty : tensor<4x4xf32>
// CHECK-NEXT:   %[[V1:\d+]] = lpu_loop.nest [d0 = 4, d1 = 4] outs(%[[V0]] : tensor<4x4xf32>) {
// CHECK-NEXT:     %[[V2:\d+]] = lpu_loop.load %x[d1, d0] : tensor<4x4xf32>
// CHECK-NEXT:     lpu_loop.store "replace" %[[V2]], %[[V0]][d0, d1] : f32, tensor<4x4xf32>
// CHECK-NEXT:   } -> tensor<4x4xf32>
// CHECK-NEXT:   lpu_loop.write_back %[[V1]], %x : tensor<4x4xf32>, tensor<4x4xf32>
// CHECK-NEXT:   func.return
func.func @write_back(%x: tensor<4x4xf32>) {
  %0 = lpu_graph.transpose %x <[1, 0]> : tensor<4x4xf32> -> tensor<4x4xf32>
  lpu_graph.write_back %0, %x : tensor<4x4xf32>, tensor<4x4xf32>
  func.return
}

// CHECK-LABEL: func.func @empty(
// CHECK-NEXT:   %[[V0:\d+]] = lpu_loop.empty : tensor<2x0xf32>
// CHECK-NEXT:   %[[V1:\d+]] = lpu_loop.nest [d0 = 2, d1 = 0] outs(%[[V0]] : tensor<2x0xf32>) {
// CHECK-NEXT:     %[[V2:\d+]] = lpu_loop.load %x[((d0 + d1) floordiv 4), -4 * ((d0 + d1) floordiv 4) + d0 + d1] : tensor<0x4xf32>
// CHECK-NEXT:     %[[V3:\d+]] = arith.negf %[[V2]] : f32
// CHECK-NEXT:     lpu_loop.store "replace" %[[V3]], %[[V0]][d0, d1] : f32, tensor<2x0xf32>
// CHECK-NEXT:   } -> tensor<2x0xf32>
// CHECK-NEXT:   func.return %[[V1]] : tensor<2x0xf32>
func.func @empty(%x: tensor<0x4xf32>) -> tensor<2x0xf32> {
  %0 = lpu_graph.reshape %x : tensor<0x4xf32> -> tensor<2x0xf32>
  %1 = lpu_graph.pointwise "neg"(%0) : tensor<2x0xf32> -> tensor<2x0xf32>
  func.return %1 : tensor<2x0xf32>
}

// Windows are index expressions: the reader steps through them.
// CHECK-LABEL: func.func @windows(
// CHECK:        lpu_loop.nest [d0 = 3, d1 = 4]
// CHECK-NEXT:     %[[V0:\d+]] = lpu_loop.fold "max" {{\[}}[[R0:r\d+]] = 3] : f32 {
// CHECK-NEXT:       %[[V1:\d+]] = lpu_loop.load %x[d0, 2 * d1 + [[R0]]] : tensor<3x9xf32>
// CHECK-NEXT:       lpu_loop.yield %[[V1]] : f32
func.func @windows(%x: tensor<3x9xf32>) -> tensor<3x4xf32> {
  %0 = lpu_graph.windows %x strides <[2]> dilations <[1]> : tensor<3x9xf32> -> tensor<3x4x3xf32>
  %1 = lpu_graph.reduce "max" %0 dims <[2]> : tensor<3x4x3xf32> -> tensor<3x4xf32>
  func.return %1 : tensor<3x4xf32>
}

// A convolution is one fold; the group comes from the output channel.
// CHECK-LABEL: func.func @convolution(
// CHECK:        lpu_loop.nest [d0 = 6, d1 = 4, d2 = 5]
// CHECK-NEXT:     %[[V0:\d+]] = lpu_loop.fold "add" {{\[}}[[R0:r\d+]] = 2, [[R1:r\d+]] = 3, [[R2:r\d+]] = 2] : f32 {
// CHECK-NEXT:       %[[V1:\d+]] = lpu_loop.load %x[0, 2 * (d0 floordiv 3) + [[R0]], 2 * d1 + [[R1]], d2 + 3 * [[R2]]] : tensor<1x4x9x8xf32>
// CHECK-NEXT:       %[[V2:\d+]] = lpu_loop.load %w[d0, [[R0]], [[R1]], [[R2]]] : tensor<6x2x3x2xf32>
// CHECK-NEXT:       %[[V3:\d+]] = arith.mulf %[[V1]], %[[V2]] : f32
// CHECK-NEXT:       lpu_loop.yield %[[V3]] : f32
func.func @convolution(%x: tensor<1x4x9x8xf32>, %w: tensor<6x2x3x2xf32>) -> tensor<1x6x4x5xf32> {
  %0 = lpu_graph.conv %x, %w strides <[2, 1]> dilations <[1, 3]> groups 2 : tensor<1x4x9x8xf32>, tensor<6x2x3x2xf32> -> tensor<1x6x4x5xf32>
  func.return %0 : tensor<1x6x4x5xf32>
}

// Narrow floats accumulate in f32; a kernel of one element needs no fold.
// CHECK-LABEL: func.func @depthwise(
// CHECK:        arith.extf
// CHECK:        arith.extf
// CHECK:        arith.mulf {{.*}} : f32
// CHECK-NOT:    lpu_loop.fold
// CHECK:        arith.truncf
func.func @depthwise(%x: tensor<1x4x9xbf16>, %w: tensor<4x1x1xbf16>) -> tensor<1x4x9xbf16> {
  %0 = lpu_graph.conv %x, %w strides <[1]> dilations <[1]> groups 4 : tensor<1x4x9xbf16>, tensor<4x1x1xbf16> -> tensor<1x4x9xbf16>
  func.return %0 : tensor<1x4x9xbf16>
}
