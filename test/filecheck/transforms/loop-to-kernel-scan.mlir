// RUN: lpu-opt -p "loop-to-kernel{target=tiny}" --split-input-file --verify-diagnostics %s | filecheck %s

// A long dim is walked in order; what the scan carries is its last element. Sums of f32 are f64.
// CHECK:      lpu_kernel.kernel @sum_0({{.*}}) access [ro, wo] cores 3 {
// CHECK:        %[[ZERO:.*]] = lpu_kernel.fill 0.000000e+00 : f64 [2] -> !lpu_kernel.tile<2xf64>
// CHECK-NEXT:   lpu_kernel.for sequential %[[I:.*]] = 0 to 5000 step 157 iter_args(%[[CARRY:.*]] = %[[ZERO]]) -> (!lpu_kernel.tile<2xf64>) {
// CHECK-NEXT:     %[[N:.*]] = lpu_kernel.apply <min(-d0 + 5000, 157)>(%[[I]])
// CHECK-NEXT:     lpu_kernel.load %{{.*}}[%{{.*}}, %[[I]]] [2, %[[N]]]
// CHECK:          arith.extf
// CHECK:          %[[S:.*]] = lpu_kernel.scan add %{{.*}} dim 1 carry(%[[CARRY]] : !lpu_kernel.tile<2xf64>) : !lpu_kernel.tile<2x157xf64> -> !lpu_kernel.tile<2x157xf64>
// CHECK-NEXT:     %[[LAST:.*]] = lpu_kernel.apply <d0 - 1>(%[[N]])
// CHECK-NEXT:     %[[NEXT:.*]] = lpu_kernel.slice %[[S]][0, %[[LAST]]] [2, 1] drop [1] : !lpu_kernel.tile<2x157xf64> -> !lpu_kernel.tile<2xf64>
// CHECK:          arith.truncf
// CHECK:          lpu_kernel.store
// CHECK-NEXT:     lpu_kernel.yield %[[NEXT]] : !lpu_kernel.tile<2xf64>
func.func @sum(%x: memref<6x5000xf32, "shared_dram">, %y: memref<6x5000xf32, "shared_dram">) {
  lpu_loop.nest [d0 = 6, d1 = 5000] outs(%y : memref<6x5000xf32, "shared_dram">) {
    %0 = lpu_loop.scan "add" [r0 = 5000] along d1 : f32 {
      %1 = lpu_loop.load %x[d0, r0] : memref<6x5000xf32, "shared_dram">
      lpu_loop.yield %1 : f32
    }
    lpu_loop.store "replace" %0, %y[d0, d1] : f32, memref<6x5000xf32, "shared_dram">
  }
  func.return
}

// -----

// What fits one tile carries nothing.
// CHECK-LABEL: lpu_kernel.kernel @short_0
// CHECK-NOT:     lpu_kernel.for
// CHECK:         lpu_kernel.scan max %{{.*}} dim 0 : !lpu_kernel.tile<8x1xf32> -> !lpu_kernel.tile<8x1xf32>
func.func @short(%x: memref<8x4xf32, "shared_dram">, %y: memref<8x4xf32, "shared_dram">) {
  lpu_loop.nest [d0 = 8, d1 = 4] outs(%y : memref<8x4xf32, "shared_dram">) {
    %0 = lpu_loop.scan "max" [r0 = 8] along d0 : f32 {
      %1 = lpu_loop.load %x[r0, d1] : memref<8x4xf32, "shared_dram">
      lpu_loop.yield %1 : f32
    }
    lpu_loop.store "replace" %0, %y[d0, d1] : f32, memref<8x4xf32, "shared_dram">
  }
  func.return
}

// -----

// The loop along the scanned dim is the innermost, also where it is the outer dim of the nest: a
// carry spans the tile of the others. An unknown extent is walked in parts.
// CHECK-LABEL: lpu_kernel.kernel @unknown_0
// CHECK:         lpu_kernel.for parallel
// CHECK:           %[[START:.*]] = lpu_kernel.fill -9223372036854775808 : i64
// CHECK-NEXT:      lpu_kernel.for sequential %{{.*}} = 0 to %s0 step {{.*}} iter_args(%{{.*}} = %[[START]])
// CHECK:             lpu_kernel.scan max %{{.*}} dim 0 carry
// CHECK-NOT:     cores 4
func.func @unknown(%x: memref<?x3000xi64, #lpu.layout<[s0, 3000], [3000, 1], 0>, "shared_dram">, %y: memref<?x3000xi64, #lpu.layout<[s0, 3000], [3000, 1], 0>, "shared_dram">)
    attributes {lpu.symbols = [#lpu.symbol<"s0", 2, -1, 40>]} {
  lpu_loop.nest [d0 = s0, d1 = 3000] outs(%y : memref<?x3000xi64, #lpu.layout<[s0, 3000], [3000, 1], 0>, "shared_dram">) {
    %0 = lpu_loop.scan "max" [r0 = s0] along d0 : i64 {
      %1 = lpu_loop.load %x[r0, d1] : memref<?x3000xi64, #lpu.layout<[s0, 3000], [3000, 1], 0>, "shared_dram">
      lpu_loop.yield %1 : i64
    }
    lpu_loop.store "replace" %0, %y[d0, d1] : i64, memref<?x3000xi64, #lpu.layout<[s0, 3000], [3000, 1], 0>, "shared_dram">
  }
  func.return
}

// -----

// CHECK: scans along several dims, one of extent s0
func.func @two(%x: memref<?xi64, #lpu.layout<[s0], [1], 0>, "shared_dram">, %y: memref<8x?xi64, #lpu.layout<[8, s0], [s0, 1], 0>, "shared_dram">)
    attributes {lpu.symbols = [#lpu.symbol<"s0", 2, -1, 40>]} {
  lpu_loop.nest [d0 = 8, d1 = s0] outs(%y : memref<8x?xi64, #lpu.layout<[8, s0], [s0, 1], 0>, "shared_dram">) {
    %0 = lpu_loop.scan "add" [r0 = s0] along d1 : i64 {
      %1 = lpu_loop.load %x[r0] : memref<?xi64, #lpu.layout<[s0], [1], 0>, "shared_dram">
      lpu_loop.yield %1 : i64
    }
    %2 = lpu_loop.scan "add" [r0 = 8] along d0 : i64 {
      %3 = lpu_loop.load %x[r0] : memref<?xi64, #lpu.layout<[s0], [1], 0>, "shared_dram">
      lpu_loop.yield %3 : i64
    }
    %4 = arith.addi %0, %2 : i64
    lpu_loop.store "replace" %4, %y[d0, d1] : i64, memref<8x?xi64, #lpu.layout<[8, s0], [s0, 1], 0>, "shared_dram">
  }
  func.return
}
