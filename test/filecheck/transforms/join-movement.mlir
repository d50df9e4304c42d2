// RUN: lpu-opt -p join-movement %s | filecheck %s
// RUN: lpu-opt -p split-movement,join-movement,split-movement %s | filecheck --check-prefix=AGAIN %s

// The window's arithmetic is taken from top, or found again where the core computes the same.
// CHECK-LABEL: @rows
// CHECK-NEXT:    lpu_kernel.phase cores(%c) {
// CHECK-NEXT:      lpu_kernel.for parallel %i = 0 to %n step 8 {
// CHECK-NEXT:        %r = lpu_kernel.apply <d0 + 64 * d1>(%i, %c)
// CHECK-NEXT:        %s = lpu_kernel.apply <min(8, d0 - d1)>(%n, %i)
// CHECK-NEXT:        %t = lpu_kernel.load %x[%r, 0] [%s, 576] : memref<?x576xf32, "shared_dram"> -> !lpu_kernel.tile<8x576xf32>
// CHECK-NEXT:        %u = lpu_kernel.fold add %t [1] : !lpu_kernel.tile<8x576xf32> -> !lpu_kernel.tile<8xf32>
// CHECK-NEXT:        lpu_kernel.store %u, %y[%r] : !lpu_kernel.tile<8xf32>, memref<?xf32, "shared_dram">
// CHECK-NOT:     lpu_kernel.receive
// AGAIN-LABEL: @rows
// AGAIN:         lpu_kernel.request @ch0 %x[%r, 0] [%s, 576] to each
// AGAIN:         lpu_kernel.receive @ch0
lpu_kernel.kernel @rows(%x: memref<?x576xf32, "shared_dram">, %y: memref<?xf32, "shared_dram">, %n: index) access [ro, wo] cores 8 {
  lpu_kernel.channel @ch0 depth 2 : !lpu_kernel.tile<8x576xf32>
  lpu_kernel.phase top(%d) {
    lpu_kernel.for parallel %j = 0 to %n step 8 {
      %q = lpu_kernel.apply <d0 + 64 * d1>(%j, %d)
      %s = lpu_kernel.apply <min(8, d0 - d1)>(%n, %j)
      lpu_kernel.request @ch0 %x[%q, 0] [%s, 576] to each : memref<?x576xf32, "shared_dram">
    }
  } cores(%c) {
    lpu_kernel.for parallel %i = 0 to %n step 8 {
      %r = lpu_kernel.apply <d0 + 64 * d1>(%i, %c)
      %t = lpu_kernel.receive @ch0 : !lpu_kernel.tile<8x576xf32>
      %u = lpu_kernel.fold add %t [1] : !lpu_kernel.tile<8x576xf32> -> !lpu_kernel.tile<8xf32>
      lpu_kernel.store %u, %y[%r] : !lpu_kernel.tile<8xf32>, memref<?xf32, "shared_dram">
    }
  }
}

// A phase without top has nothing to join.
// CHECK-LABEL: @plain
// CHECK:         %t = lpu_kernel.load %x[0] [4]
lpu_kernel.kernel @plain(%x: memref<4xf32, "shared_dram">, %y: memref<4xf32, "shared_dram">) access [ro, wo] cores 1 {
  lpu_kernel.phase cores(%c) {
    %t = lpu_kernel.load %x[0] [4] : memref<4xf32, "shared_dram"> -> !lpu_kernel.tile<4xf32>
    lpu_kernel.store %t, %y[0] : !lpu_kernel.tile<4xf32>, memref<4xf32, "shared_dram">
  }
}
