// RUN: lpu-opt -p coalesce-trips --split-input-file %s | filecheck %s

// Four trips of 8 rows are one of 32; sums begin with as many.
// CHECK-LABEL: lpu_kernel.kernel @rows
// CHECK:         lpu_kernel.for parallel %i = 0 to %n step 32 {
// CHECK-NEXT:      %{{\S+}} = lpu_kernel.apply <min(-d0 + d1, 8)>(%i, %n)
// CHECK-NEXT:      %[[S:\S+]] = lpu_kernel.apply <max(0, min(-d0 + d1, 32))>(%i, %n)
// CHECK-NEXT:      %[[Z:\S+]] = lpu_kernel.fill 0.000000e+00 : f32 [%[[S]], 16] -> !lpu_kernel.tile<32x16xf32>
// CHECK-NEXT:      %[[Y:\S+]] = lpu_kernel.for reduction %k = 0 to 64 step 16 iter_args(%acc = %[[Z]]) -> (!lpu_kernel.tile<32x16xf32>) {
// CHECK:             %[[X:\S+]] = lpu_kernel.load %a[%i, %k] [%{{\S+}}, 16] : memref<?x64xf32, {{.*}}> -> !lpu_kernel.tile<32x16xf32>
// CHECK:             lpu_kernel.contract %[[X]] as [0, 2], %{{\S+}} as [1, 2] acc(%acc : !lpu_kernel.tile<32x16xf32>)
// CHECK:           lpu_kernel.store %[[Y]], %c[%i, 0] : !lpu_kernel.tile<32x16xf32>
lpu_kernel.kernel @rows(%a: memref<?x64xf32, #lpu.layout<[n, 64], [64, 1], 0>, "shared_dram">, %b: memref<16x64xf32, "shared_dram">, %c: memref<?x16xf32, #lpu.layout<[n, 16], [16, 1], 0>, "shared_dram">, %n: index) access [ro, ro, wo] cores 1 {
  lpu_kernel.phase cores(%core) {
    lpu_kernel.for parallel %i = 0 to %n step 8 {
      %s = lpu_kernel.apply <min(-d0 + d1, 8)>(%i, %n)
      %z = lpu_kernel.fill 0.000000e+00 : f32 [%s, 16] -> !lpu_kernel.tile<8x16xf32>
      %y = lpu_kernel.for reduction %k = 0 to 64 step 16 iter_args(%acc = %z) -> (!lpu_kernel.tile<8x16xf32>) {
        %x = lpu_kernel.load %a[%i, %k] [%s, 16] : memref<?x64xf32, #lpu.layout<[n, 64], [64, 1], 0>, "shared_dram"> -> !lpu_kernel.tile<8x16xf32>
        %w = lpu_kernel.load %b[0, %k] [16, 16] : memref<16x64xf32, "shared_dram"> -> !lpu_kernel.tile<16x16xf32>
        %p = lpu_kernel.contract %x as [0, 2], %w as [1, 2] acc(%acc : !lpu_kernel.tile<8x16xf32>) : !lpu_kernel.tile<8x16xf32>, !lpu_kernel.tile<16x16xf32> -> !lpu_kernel.tile<8x16xf32>
        lpu_kernel.yield %p : !lpu_kernel.tile<8x16xf32>
      }
      lpu_kernel.store %y, %c[%i, 0] : !lpu_kernel.tile<8x16xf32>, memref<?x16xf32, #lpu.layout<[n, 16], [16, 1], 0>, "shared_dram">
    }
  }
}

// -----

// A loop of known length was planned with its length; one that takes enough positions is left, too.
// CHECK-LABEL: lpu_kernel.kernel @known
// CHECK:         lpu_kernel.for parallel %i = 0 to 64 step 8 {
lpu_kernel.kernel @known(%a: memref<64x16xf32, "shared_dram">, %b: memref<16x16xf32, "shared_dram">, %c: memref<64x16xf32, "shared_dram">) access [ro, ro, wo] cores 1 {
  lpu_kernel.phase cores(%core) {
    lpu_kernel.for parallel %i = 0 to 64 step 8 {
      %x = lpu_kernel.load %a[%i, 0] [8, 16] : memref<64x16xf32, "shared_dram"> -> !lpu_kernel.tile<8x16xf32>
      %w = lpu_kernel.load %b[0, 0] [16, 16] : memref<16x16xf32, "shared_dram"> -> !lpu_kernel.tile<16x16xf32>
      %p = lpu_kernel.contract %x as [0, 2], %w as [1, 2] : !lpu_kernel.tile<8x16xf32>, !lpu_kernel.tile<16x16xf32> -> !lpu_kernel.tile<8x16xf32>
      lpu_kernel.store %p, %c[%i, 0] : !lpu_kernel.tile<8x16xf32>, memref<64x16xf32, "shared_dram">
    }
  }
}

// -----

// The sum over a loop's own positions cannot take those of the next trip.
// CHECK-LABEL: lpu_kernel.kernel @summed
// CHECK:         lpu_kernel.for parallel %i = 0 to %n step 8 {
lpu_kernel.kernel @summed(%a: memref<16x?xf32, #lpu.layout<[16, n], [n, 1], 0>, "shared_dram">, %c: memref<16x16xf32, "shared_dram">, %n: index) access [ro, wo] cores 1 {
  lpu_kernel.phase cores(%core) {
    lpu_kernel.for parallel %i = 0 to %n step 8 {
      %s = lpu_kernel.apply <min(-d0 + d1, 8)>(%i, %n)
      %x = lpu_kernel.load %a[0, %i] [16, %s] : memref<16x?xf32, #lpu.layout<[16, n], [n, 1], 0>, "shared_dram"> -> !lpu_kernel.tile<16x8xf32>
      %p = lpu_kernel.contract %x as [0, 2], %x as [1, 2] : !lpu_kernel.tile<16x8xf32>, !lpu_kernel.tile<16x8xf32> -> !lpu_kernel.tile<16x16xf32>
      lpu_kernel.store %p, %c[0, 0] : !lpu_kernel.tile<16x16xf32>, memref<16x16xf32, "shared_dram">
    }
  }
}
