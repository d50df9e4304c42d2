// RUN: lpu-opt %s | lpu-opt | filecheck %s
// RUN: lpu-opt --print-op-generic %s | lpu-opt | filecheck %s

// CHECK-LABEL: func.func @product(%x: tensor<3x24xbf16>, %w: tensor<64x24xbf16>) -> tensor<3x64xf32> {
func.func @product(%x: tensor<3x24xbf16>, %w: tensor<64x24xbf16>) -> tensor<3x64xf32> {
  // CHECK-NEXT: %e = lpu_loop.empty : tensor<3x64xf32>
  %e = lpu_loop.empty : tensor<3x64xf32>
  // CHECK-NEXT: %y = lpu_loop.nest [d0 = 3, d1 = 64] outs(%e : tensor<3x64xf32>) {
  %y = lpu_loop.nest [d0 = 3, d1 = 64] outs(%e : tensor<3x64xf32>) {
    // CHECK-NEXT: %0 = lpu_loop.fold "add" [r0 = 24] : f32 {
    %0 = lpu_loop.fold "add" [r0 = 24] : f32 {
      // CHECK-NEXT: %1 = lpu_loop.load %x[d0, r0] : tensor<3x24xbf16>
      %1 = lpu_loop.load %x[d0, r0] : tensor<3x24xbf16>
      // CHECK-NEXT: %2 = lpu_loop.load %w[d1, r0] : tensor<64x24xbf16>
      %2 = lpu_loop.load %w[d1, r0] : tensor<64x24xbf16>
      // CHECK-NEXT: %3 = arith.extf %1 : bf16 to f32
      %3 = arith.extf %1 : bf16 to f32
      // CHECK-NEXT: %4 = arith.extf %2 : bf16 to f32
      %4 = arith.extf %2 : bf16 to f32
      // CHECK-NEXT: %5 = arith.mulf %3, %4 : f32
      %5 = arith.mulf %3, %4 : f32
      // CHECK-NEXT: lpu_loop.yield %5 : f32
      lpu_loop.yield %5 : f32
    // CHECK-NEXT: }
    }
    // CHECK-NEXT: lpu_loop.store "replace" %0, %e[d0, d1] : f32, tensor<3x64xf32>
    lpu_loop.store "replace" %0, %e[d0, d1] : f32, tensor<3x64xf32>
  // CHECK-NEXT: } -> tensor<3x64xf32>
  } -> tensor<3x64xf32>
  // CHECK-NEXT: func.return %y : tensor<3x64xf32>
  func.return %y : tensor<3x64xf32>
// CHECK-NEXT: }
}

// No dims, no results, further attributes, an index that comes from data.
// CHECK-LABEL: func.func @scattered(%n: memref<i64, "shared_dram">, %y: memref<?x8xf32, #lpu.layout<[s0, 8], [8, 1], 0>, "shared_dram">) attributes {lpu.symbols = [#lpu.symbol<"s0", 1, -1, 7>]} {
func.func @scattered(%n: memref<i64, "shared_dram">, %y: memref<?x8xf32, #lpu.layout<[s0, 8], [8, 1], 0>, "shared_dram">) attributes {lpu.symbols = [#lpu.symbol<"s0", 1, -1, 7>]} {
  // CHECK-NEXT: lpu_loop.nest [] outs(%y : memref<?x8xf32, #lpu.layout<[s0, 8], [8, 1], 0>, "shared_dram">) {
  lpu_loop.nest [] outs(%y : memref<?x8xf32, #lpu.layout<[s0, 8], [8, 1], 0>, "shared_dram">) {
    // CHECK-NEXT: %p = lpu_loop.load %n[] : memref<i64, "shared_dram">
    %p = lpu_loop.load %n[] : memref<i64, "shared_dram">
    // CHECK-NEXT: %s = lpu_loop.index s0 - 1 : i64
    %s = lpu_loop.index s0 - 1 : i64
    // CHECK-NEXT: %ok = arith.cmpi sle, %p, %s : i64
    %ok = arith.cmpi sle, %p, %s : i64
    // CHECK-NEXT: lpu_loop.check %ok, "IndexError", "index out of range"
    lpu_loop.check %ok, "IndexError", "index out of range"
    // CHECK-NEXT: %one = arith.constant 1.000000e+00 : f32
    %one = arith.constant 1.0 : f32
    // CHECK-NEXT: lpu_loop.store "add" %one, %y[_0, 7](%p) : f32, memref<?x8xf32, #lpu.layout<[s0, 8], [8, 1], 0>, "shared_dram">
    lpu_loop.store "add" %one, %y[_0, 7](%p) : f32, memref<?x8xf32, #lpu.layout<[s0, 8], [8, 1], 0>, "shared_dram">
    // CHECK-NEXT: lpu_loop.store "min" %one, %y[_0, 7](%p) : f32, memref<?x8xf32, #lpu.layout<[s0, 8], [8, 1], 0>, "shared_dram">
    lpu_loop.store "min" %one, %y[_0, 7](%p) : f32, memref<?x8xf32, #lpu.layout<[s0, 8], [8, 1], 0>, "shared_dram">
  // CHECK-NEXT: } attributes {note = "kept"}
  } attributes {note = "kept"}
  // CHECK-NEXT: func.return
  func.return
// CHECK-NEXT: }
}

// All that has a region; two results; unsigned elements are signless scalars.
// CHECK-LABEL: func.func @regions(%x: tensor<6x4xui8>, %c: tensor<6x4xi8>) -> (tensor<6x4xui8>, tensor<6x4xi64>) {
func.func @regions(%x: tensor<6x4xui8>, %c: tensor<6x4xi8>) -> (tensor<6x4xui8>, tensor<6x4xi64>) {
  // CHECK-NEXT: %0 = lpu_loop.empty : tensor<6x4xui8>
  %0 = lpu_loop.empty : tensor<6x4xui8>
  // CHECK-NEXT: %1 = lpu_loop.empty : tensor<6x4xi64>
  %1 = lpu_loop.empty : tensor<6x4xi64>
  // CHECK-NEXT: %2, %3 = lpu_loop.nest [d0 = 6, d1 = 4] outs(%0, %1 : tensor<6x4xui8>, tensor<6x4xi64>) {
  %2, %3 = lpu_loop.nest [d0 = 6, d1 = 4] outs(%0, %1 : tensor<6x4xui8>, tensor<6x4xi64>) {
    // CHECK-NEXT: %4 = lpu_loop.scan "max" [r0 = 4] along d1 : i8 {
    %4 = lpu_loop.scan "max" [r0 = 4] along d1 : i8 {
      // CHECK-NEXT: %5 = lpu_loop.load %x[d0, r0] : tensor<6x4xui8>
      %5 = lpu_loop.load %x[d0, r0] : tensor<6x4xui8>
      // CHECK-NEXT: lpu_loop.yield %5 : i8
      lpu_loop.yield %5 : i8
    // CHECK-NEXT: }
    }
    // CHECK-NEXT: %6 = lpu_loop.arg_fold "min" [r0 = 6] : i64 {
    %6 = lpu_loop.arg_fold "min" [r0 = 6] : i64 {
      // CHECK-NEXT: %7 = lpu_loop.load %c[r0, d1] : tensor<6x4xi8>
      %7 = lpu_loop.load %c[r0, d1] : tensor<6x4xi8>
      // CHECK-NEXT: lpu_loop.yield %7 : i8
      lpu_loop.yield %7 : i8
    // CHECK-NEXT: }
    }
    // CHECK-NEXT: %8 = lpu_loop.pieces d0 + 1 at [2, 4] : i8 {
    %8 = lpu_loop.pieces d0 + 1 at [2, 4] : i8 {
      // CHECK-NEXT: lpu_loop.yield %4 : i8
      lpu_loop.yield %4 : i8
    // CHECK-NEXT: } {
    } {
      // CHECK-NEXT: %9 = lpu_loop.load %c[d0 - 1, d1] : tensor<6x4xi8>
      %9 = lpu_loop.load %c[d0 - 1, d1] : tensor<6x4xi8>
      // CHECK-NEXT: lpu_loop.yield %9 : i8
      lpu_loop.yield %9 : i8
    // CHECK-NEXT: } {
    } {
      // CHECK-NEXT: %10 = arith.constant 3 : i8
      %10 = arith.constant 3 : i8
      // CHECK-NEXT: lpu_loop.yield %10 : i8
      lpu_loop.yield %10 : i8
    // CHECK-NEXT: }
    }
    // CHECK-NEXT: lpu_loop.store "replace" %8, %0[d0, d1] : i8, tensor<6x4xui8>
    lpu_loop.store "replace" %8, %0[d0, d1] : i8, tensor<6x4xui8>
    // CHECK-NEXT: lpu_loop.store "replace" %6, %1[d0, d1] : i64, tensor<6x4xi64>
    lpu_loop.store "replace" %6, %1[d0, d1] : i64, tensor<6x4xi64>
  // CHECK-NEXT: } -> tensor<6x4xui8>, tensor<6x4xi64>
  } -> tensor<6x4xui8>, tensor<6x4xi64>
  // CHECK-NEXT: lpu_loop.write_back %2, %x : tensor<6x4xui8>, tensor<6x4xui8>
  lpu_loop.write_back %2, %x : tensor<6x4xui8>, tensor<6x4xui8>
  // CHECK-NEXT: func.return %2, %3 : tensor<6x4xui8>, tensor<6x4xi64>
  func.return %2, %3 : tensor<6x4xui8>, tensor<6x4xi64>
// CHECK-NEXT: }
}

// Parts with dims of their own; what depends on the dims around is there once.
// CHECK-LABEL: func.func @parts(%x: tensor<6x4xf32>) -> (tensor<6xf32>, tensor<6x4xf32>) {
func.func @parts(%x: tensor<6x4xf32>) -> (tensor<6xf32>, tensor<6x4xf32>) {
  // CHECK-NEXT: %0 = lpu_loop.empty : tensor<6xf32>
  %0 = lpu_loop.empty : tensor<6xf32>
  // CHECK-NEXT: %1 = lpu_loop.empty : tensor<6x4xf32>
  %1 = lpu_loop.empty : tensor<6x4xf32>
  // CHECK-NEXT: %2, %3 = lpu_loop.nest [d0 = 6] outs(%0, %1 : tensor<6xf32>, tensor<6x4xf32>) {
  %2, %3 = lpu_loop.nest [d0 = 6] outs(%0, %1 : tensor<6xf32>, tensor<6x4xf32>) {
    // CHECK-NEXT: %4 = lpu_loop.load %x[d0, 0] : tensor<6x4xf32>
    %4 = lpu_loop.load %x[d0, 0] : tensor<6x4xf32>
    // CHECK-NEXT: lpu_loop.store "replace" %4, %0[d0] : f32, tensor<6xf32>
    lpu_loop.store "replace" %4, %0[d0] : f32, tensor<6xf32>
    // CHECK-NEXT: lpu_loop.over [d1 = 4] {
    lpu_loop.over [d1 = 4] {
      // CHECK-NEXT: %5 = lpu_loop.load %x[d0, d1] : tensor<6x4xf32>
      %5 = lpu_loop.load %x[d0, d1] : tensor<6x4xf32>
      // CHECK-NEXT: %6 = arith.subf %5, %4 : f32
      %6 = arith.subf %5, %4 : f32
      // CHECK-NEXT: lpu_loop.store "replace" %6, %1[d0, d1] : f32, tensor<6x4xf32>
      lpu_loop.store "replace" %6, %1[d0, d1] : f32, tensor<6x4xf32>
    // CHECK-NEXT: }
    }
  // CHECK-NEXT: } -> tensor<6xf32>, tensor<6x4xf32>
  } -> tensor<6xf32>, tensor<6x4xf32>
  // CHECK-NEXT: func.return %2, %3 : tensor<6xf32>, tensor<6x4xf32>
  func.return %2, %3 : tensor<6xf32>, tensor<6x4xf32>
// CHECK-NEXT: }
}
