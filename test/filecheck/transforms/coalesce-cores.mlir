// RUN: lpu-opt -p coalesce-cores %s | filecheck %s
// RUN: lpu-opt -p "coalesce-cores{cores=3}" %s | filecheck --check-prefix=THREE %s

// Rows of neighbouring cores become one tile; what all cores read stays as it is.
// CHECK-LABEL: @product
// CHECK-SAME:    cores 2 {
// CHECK-NEXT:    lpu_kernel.phase cores(%c) {
// CHECK-NEXT:      %{{.*}} = lpu_kernel.apply <4 * d0>(%c)
// CHECK-NEXT:      %o = lpu_kernel.apply <4 * d0>(%{{.*}})
// CHECK-NEXT:      %x = lpu_kernel.load %a[%o, 0] [16, 64] : memref<32x64xf32, "shared_dram"> -> !lpu_kernel.tile<16x64xf32>
// CHECK-NEXT:      %w = lpu_kernel.load %b[0, 0] [8, 64] : memref<8x64xf32, "shared_dram"> -> !lpu_kernel.tile<8x64xf32>
// CHECK-NEXT:      %p = lpu_kernel.contract %x as [0, 2], %w as [1, 2] : !lpu_kernel.tile<16x64xf32>, !lpu_kernel.tile<8x64xf32> -> !lpu_kernel.tile<16x8xf32>
// CHECK-NEXT:      %r = lpu_kernel.map [16, 8] at [%o, 0] ins(%p as [0, 1] : !lpu_kernel.tile<16x8xf32>) -> (!lpu_kernel.tile<16x8xf32>) {
// CHECK:           lpu_kernel.store %r, %y[%o, 0] : !lpu_kernel.tile<16x8xf32>, memref<32x8xf32, "shared_dram">
// A kernel keeps a divisor of its number of cores, at least as many as are wanted.
// THREE-LABEL: @product
// THREE-SAME:    cores 4 {
lpu_kernel.kernel @product(%a: memref<32x64xf32, "shared_dram">, %b: memref<8x64xf32, "shared_dram">, %y: memref<32x8xf32, "shared_dram">) access [ro, ro, wo] cores 8 {
  lpu_kernel.phase cores(%c) {
    %o = lpu_kernel.apply <4 * d0>(%c)
    %x = lpu_kernel.load %a[%o, 0] [4, 64] : memref<32x64xf32, "shared_dram"> -> !lpu_kernel.tile<4x64xf32>
    %w = lpu_kernel.load %b[0, 0] [8, 64] : memref<8x64xf32, "shared_dram"> -> !lpu_kernel.tile<8x64xf32>
    %p = lpu_kernel.contract %x as [0, 2], %w as [1, 2] : !lpu_kernel.tile<4x64xf32>, !lpu_kernel.tile<8x64xf32> -> !lpu_kernel.tile<4x8xf32>
    %r = lpu_kernel.map [4, 8] at [%o, 0] ins(%p as [0, 1] : !lpu_kernel.tile<4x8xf32>) -> (!lpu_kernel.tile<4x8xf32>) {
    ^bb0(%i : index, %j : index, %v : f32):
      %n = arith.negf %v : f32
      lpu_kernel.yield %n : f32
    }
    lpu_kernel.store %r, %y[%o, 0] : !lpu_kernel.tile<4x8xf32>, memref<32x8xf32, "shared_dram">
  }
}

// What is left for the last cores is left for the last of fewer, too.
// CHECK-LABEL: @ragged
// CHECK-SAME:    cores 2 {
// CHECK-NEXT:    lpu_kernel.phase cores(%c) {
// CHECK-NEXT:      %[[F:.*]] = lpu_kernel.apply <4 * d0>(%c)
// CHECK-NEXT:      %o = lpu_kernel.apply <3 * d0>(%[[F]])
// CHECK-NEXT:      %s = lpu_kernel.apply <max(0, min(-3 * d0 + d1, 3))>(%[[F]], %n)
// CHECK-NEXT:      %[[S:.*]] = lpu_kernel.apply <max(0, min(-3 * d0 + d1, 12))>(%[[F]], %n)
// CHECK-NEXT:      %x = lpu_kernel.load %a[%o] [%[[S]]] : memref<?xf32, "shared_dram"> -> !lpu_kernel.tile<12xf32>
// CHECK-NEXT:      lpu_kernel.store %x, %y[%o] : !lpu_kernel.tile<12xf32>, memref<?xf32, "shared_dram">
lpu_kernel.kernel @ragged(%a: memref<?xf32, "shared_dram">, %y: memref<?xf32, "shared_dram">, %n: index) access [ro, wo] cores 8 {
  lpu_kernel.phase cores(%c) {
    %o = lpu_kernel.apply <3 * d0>(%c)
    %s = lpu_kernel.apply <max(0, min(-3 * d0 + d1, 3))>(%c, %n)
    %x = lpu_kernel.load %a[%o] [%s] : memref<?xf32, "shared_dram"> -> !lpu_kernel.tile<3xf32>
    lpu_kernel.store %x, %y[%o] : !lpu_kernel.tile<3xf32>, memref<?xf32, "shared_dram">
  }
}

// Windows of a convolution overlap from core to core; their union holds each element once.
// CHECK-LABEL: @windows
// CHECK-SAME:    cores 2 {
// CHECK:           %t = lpu_kernel.load %x[%o] [18] : memref<34xf32, "shared_dram"> -> !lpu_kernel.tile<18xf32>
// CHECK-NEXT:      %v = lpu_kernel.windows %t along [0, 0] steps [1, 1] [16, 3] : !lpu_kernel.tile<18xf32> -> !lpu_kernel.tile<16x3xf32>
// CHECK:           %p = lpu_kernel.contract %v as [0, 1], %k as [1] : !lpu_kernel.tile<16x3xf32>, !lpu_kernel.tile<3xf32> -> !lpu_kernel.tile<16xf32>
lpu_kernel.kernel @windows(%x: memref<34xf32, "shared_dram">, %w: memref<3xf32, "shared_dram">, %y: memref<32xf32, "shared_dram">) access [ro, ro, wo] cores 8 {
  lpu_kernel.phase cores(%c) {
    %o = lpu_kernel.apply <4 * d0>(%c)
    %t = lpu_kernel.load %x[%o] [6] : memref<34xf32, "shared_dram"> -> !lpu_kernel.tile<6xf32>
    %v = lpu_kernel.windows %t along [0, 0] steps [1, 1] [4, 3] : !lpu_kernel.tile<6xf32> -> !lpu_kernel.tile<4x3xf32>
    %k = lpu_kernel.load %w[0] [3] : memref<3xf32, "shared_dram"> -> !lpu_kernel.tile<3xf32>
    %p = lpu_kernel.contract %v as [0, 1], %k as [1] : !lpu_kernel.tile<4x3xf32>, !lpu_kernel.tile<3xf32> -> !lpu_kernel.tile<4xf32>
    lpu_kernel.store %p, %y[%o] : !lpu_kernel.tile<4xf32>, memref<32xf32, "shared_dram">
  }
}

// A loop carries the larger tile; its first value becomes larger with it. What only the first core
// does, the first still does alone.
// CHECK-LABEL: @loop
// CHECK-SAME:    cores 2 {
// CHECK:           %z = lpu_kernel.fill 0.000000e+00 : f32 [8] -> !lpu_kernel.tile<8xf32>
// CHECK:           %s = lpu_kernel.for reduction %i = 0 to 64 step 16 iter_args(%acc = %z) -> (!lpu_kernel.tile<8xf32>) {
// CHECK-NEXT:        %t = lpu_kernel.load %x[%o, %i] [8, 16]
// CHECK-NEXT:        %f = lpu_kernel.fold add %t [1] acc(%acc : !lpu_kernel.tile<8xf32>) : !lpu_kernel.tile<8x16xf32> -> !lpu_kernel.tile<8xf32>
// CHECK:           lpu_kernel.for parallel %j = 0 to %u step 1 {
lpu_kernel.kernel @loop(%x: memref<16x64xf32, "shared_dram">, %y: memref<16xf32, "shared_dram">, %count: memref<f32, "shared_dram">) access [ro, wo, rw] cores 8 {
  lpu_kernel.phase cores(%c) {
    %o = lpu_kernel.apply <2 * d0>(%c)
    %z = lpu_kernel.fill 0.0 : f32 [2] -> !lpu_kernel.tile<2xf32>
    %s = lpu_kernel.for reduction %i = 0 to 64 step 16 iter_args(%acc = %z) -> (!lpu_kernel.tile<2xf32>) {
      %t = lpu_kernel.load %x[%o, %i] [2, 16] : memref<16x64xf32, "shared_dram"> -> !lpu_kernel.tile<2x16xf32>
      %f = lpu_kernel.fold add %t [1] acc(%acc : !lpu_kernel.tile<2xf32>) : !lpu_kernel.tile<2x16xf32> -> !lpu_kernel.tile<2xf32>
      lpu_kernel.yield %f : !lpu_kernel.tile<2xf32>
    }
    lpu_kernel.store %s, %y[%o] : !lpu_kernel.tile<2xf32>, memref<16xf32, "shared_dram">
    %u = lpu_kernel.apply <max(-d0 + 1, 0)>(%c)
    lpu_kernel.for parallel %j = 0 to %u step 1 {
      %k = lpu_kernel.load %count[] [] : memref<f32, "shared_dram"> -> !lpu_kernel.tile<f32>
      lpu_kernel.store %k, %count[] : !lpu_kernel.tile<f32>, memref<f32, "shared_dram">
    }
  }
}

// Nothing joins where windows of cores lie apart, ...
// CHECK-LABEL: @apart
// CHECK-SAME:    cores 8 {
lpu_kernel.kernel @apart(%x: memref<64xf32, "shared_dram">, %y: memref<64xf32, "shared_dram">) access [ro, wo] cores 8 {
  lpu_kernel.phase cores(%c) {
    %o = lpu_kernel.apply <8 * d0>(%c)
    %t = lpu_kernel.load %x[%o] [4] : memref<64xf32, "shared_dram"> -> !lpu_kernel.tile<4xf32>
    lpu_kernel.store %t, %y[%o] : !lpu_kernel.tile<4xf32>, memref<64xf32, "shared_dram">
  }
}

// ... where each core folds what it has, ...
// CHECK-LABEL: @folded
// CHECK-SAME:    cores 8 {
lpu_kernel.kernel @folded(%x: memref<64xf32, "shared_dram">, %y: memref<8xf32, "shared_dram">) access [ro, wo] cores 8 {
  lpu_kernel.phase cores(%c) {
    %o = lpu_kernel.apply <8 * d0>(%c)
    %t = lpu_kernel.load %x[%o] [8] : memref<64xf32, "shared_dram"> -> !lpu_kernel.tile<8xf32>
    %f = lpu_kernel.fold add %t [0] : !lpu_kernel.tile<8xf32> -> !lpu_kernel.tile<f32>
    lpu_kernel.store %f, %y[0] index 0 by %c : !lpu_kernel.tile<f32>, memref<8xf32, "shared_dram">, index
  }
}

// ... where cores differ in two dims, ...
// CHECK-LABEL: @grid
// CHECK-SAME:    cores 8 {
lpu_kernel.kernel @grid(%x: memref<8x8xf32, "shared_dram">, %y: memref<8x8xf32, "shared_dram">) access [ro, wo] cores 8 {
  lpu_kernel.phase cores(%c) {
    %i = lpu_kernel.apply <2 * (d0 floordiv 2)>(%c)
    %j = lpu_kernel.apply <4 * d0 - 8 * (d0 floordiv 2)>(%c)
    %t = lpu_kernel.load %x[%i, %j] [2, 4] : memref<8x8xf32, "shared_dram"> -> !lpu_kernel.tile<2x4xf32>
    lpu_kernel.store %t, %y[%i, %j] : !lpu_kernel.tile<2x4xf32>, memref<8x8xf32, "shared_dram">
  }
}

// ... and tiles that would grow large without a product to gain from it stay.
// CHECK-LABEL: @large
// CHECK-SAME:    cores 8 {
lpu_kernel.kernel @large(%x: memref<32768xf32, "shared_dram">, %y: memref<32768xf32, "shared_dram">) access [ro, wo] cores 8 {
  lpu_kernel.phase cores(%c) {
    %o = lpu_kernel.apply <4096 * d0>(%c)
    %t = lpu_kernel.load %x[%o] [4096] : memref<32768xf32, "shared_dram"> -> !lpu_kernel.tile<4096xf32>
    %r = lpu_kernel.map [4096] at [%o] ins(%t as [0] : !lpu_kernel.tile<4096xf32>) -> (!lpu_kernel.tile<4096xf32>) {
    ^bb0(%i : index, %v : f32):
      %n = arith.negf %v : f32
      lpu_kernel.yield %n : f32
    }
    lpu_kernel.store %r, %y[%o] : !lpu_kernel.tile<4096xf32>, memref<32768xf32, "shared_dram">
  }
}

// A share of an unknown extent has no size: fewer cores divide the extent, in tiles as they were.
// CHECK-LABEL: @share
// CHECK-SAME:    cores 2 {
// CHECK-NEXT:    lpu_kernel.phase cores(%c) {
// CHECK-NEXT:      %o = lpu_kernel.apply <((d1 + 1) floordiv 2) * d0>(%c, %n)
// CHECK-NEXT:      %s = lpu_kernel.apply <max(0, min(((d1 + 1) floordiv 2), -((d1 + 1) floordiv 2) * d0 + d1))>(%c, %n)
// CHECK-NEXT:      %f = lpu_kernel.apply <max(-d0 + 1, 0)>(%c)
// CHECK-NEXT:      lpu_kernel.for parallel %i = 0 to %s step 4 {
lpu_kernel.kernel @share(%a: memref<?x64xf32, "shared_dram">, %b: memref<8x64xf32, "shared_dram">, %y: memref<?x8xf32, "shared_dram">, %n: index) access [ro, ro, wo] cores 8 {
  lpu_kernel.phase cores(%c) {
    %o = lpu_kernel.apply <((d1 + 7) floordiv 8) * d0>(%c, %n)
    %s = lpu_kernel.apply <max(0, min(((d1 + 7) floordiv 8), -((d1 + 7) floordiv 8) * d0 + d1))>(%c, %n)
    %f = lpu_kernel.apply <max(-d0 + 1, 0)>(%c)
    lpu_kernel.for parallel %i = 0 to %s step 4 {
      %r = lpu_kernel.apply <d0 + d1>(%o, %i)
      %m = lpu_kernel.apply <min(-d0 + d1, 4)>(%i, %s)
      %x = lpu_kernel.load %a[%r, 0] [%m, 64] : memref<?x64xf32, "shared_dram"> -> !lpu_kernel.tile<4x64xf32>
      %w = lpu_kernel.load %b[0, 0] [8, 64] : memref<8x64xf32, "shared_dram"> -> !lpu_kernel.tile<8x64xf32>
      %p = lpu_kernel.contract %x as [0, 2], %w as [1, 2] : !lpu_kernel.tile<4x64xf32>, !lpu_kernel.tile<8x64xf32> -> !lpu_kernel.tile<4x8xf32>
      lpu_kernel.store %p, %y[%r, 0] : !lpu_kernel.tile<4x8xf32>, memref<?x8xf32, "shared_dram">
    }
  }
}

// Nothing is known of a core that reads where its neighbour's share is.
// CHECK-LABEL: @beside
// CHECK-SAME:    cores 8 {
lpu_kernel.kernel @beside(%a: memref<?x64xf32, "shared_dram">, %b: memref<8x64xf32, "shared_dram">, %y: memref<?x8xf32, "shared_dram">, %n: index) access [ro, ro, wo] cores 8 {
  lpu_kernel.phase cores(%c) {
    %o = lpu_kernel.apply <((d1 + 7) floordiv 8) * d0 + d0>(%c, %n)
    lpu_kernel.for parallel %i = 0 to 4 step 4 {
      %r = lpu_kernel.apply <d0 + d1>(%o, %i)
      %x = lpu_kernel.load %a[%r, 0] [4, 64] : memref<?x64xf32, "shared_dram"> -> !lpu_kernel.tile<4x64xf32>
      %w = lpu_kernel.load %b[0, 0] [8, 64] : memref<8x64xf32, "shared_dram"> -> !lpu_kernel.tile<8x64xf32>
      %p = lpu_kernel.contract %x as [0, 2], %w as [1, 2] : !lpu_kernel.tile<4x64xf32>, !lpu_kernel.tile<8x64xf32> -> !lpu_kernel.tile<4x8xf32>
      lpu_kernel.store %p, %y[%r, 0] : !lpu_kernel.tile<4x8xf32>, memref<?x8xf32, "shared_dram">
    }
  }
}
