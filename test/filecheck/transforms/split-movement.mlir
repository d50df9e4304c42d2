// RUN: lpu-opt -p split-movement %s | filecheck %s
// RUN: lpu-opt -p "split-movement{depth=3}" %s | filecheck --check-prefix=DEEP %s

// Top gets the loops and the index arithmetic that the window needs, and nothing else.
// CHECK-LABEL: @rows
// CHECK-NEXT:    lpu_kernel.channel @ch0 depth 2 : !lpu_kernel.tile<8x576xf32>
// CHECK-NEXT:    lpu_kernel.channel @ch1 depth 1 : !lpu_kernel.tile<1x576xf32>
// CHECK-NEXT:    lpu_kernel.phase top(%c) {
// CHECK-NEXT:      lpu_kernel.for parallel %i = 0 to %n step 8 {
// CHECK-NEXT:        %r = lpu_kernel.apply <d0 + 64 * d1>(%i, %c)
// CHECK-NEXT:        %s = lpu_kernel.apply <min(8, d0 - d1)>(%n, %i)
// CHECK-NEXT:        lpu_kernel.request @ch0 %x[%r, 0] [%s, 576] to each : memref<?x576xf32, "shared_dram">
// CHECK-NEXT:      }
// CHECK-NEXT:      lpu_kernel.request @ch1 %x[0, 0] [1, 576] to all : memref<?x576xf32, "shared_dram">
// CHECK-NEXT:    } cores(%c_1) {
// CHECK:           %r_1 = lpu_kernel.apply <d0 + 64 * d1>(%{{.*}}, %c_1)
// CHECK:           %t = lpu_kernel.receive @ch0 : !lpu_kernel.tile<8x576xf32>
// CHECK-NEXT:      %u = lpu_kernel.fold add %t [1]
// CHECK-NEXT:      lpu_kernel.store %u, %y[%r_1] : !lpu_kernel.tile<8xf32>, memref<?xf32, "shared_dram">
// CHECK:         %v = lpu_kernel.receive @ch1 : !lpu_kernel.tile<1x576xf32>
// CHECK-NOT:     lpu_kernel.load
// DEEP-LABEL: @rows
// DEEP-NEXT:     lpu_kernel.channel @ch0 depth 3 : !lpu_kernel.tile<8x576xf32>
// A channel holds no more than it ever gets.
// DEEP-NEXT:     lpu_kernel.channel @ch1 depth 1 : !lpu_kernel.tile<1x576xf32>
lpu_kernel.kernel @rows(%x: memref<?x576xf32, "shared_dram">, %y: memref<?xf32, "shared_dram">, %n: index) access [ro, wo] cores 8 {
  lpu_kernel.phase cores(%c) {
    lpu_kernel.for parallel %i = 0 to %n step 8 {
      %r = lpu_kernel.apply <d0 + 64 * d1>(%i, %c)
      %s = lpu_kernel.apply <min(8, d0 - d1)>(%n, %i)
      %unused = lpu_kernel.apply <d0 + 7>(%i)
      %t = lpu_kernel.load %x[%r, 0] [%s, 576] : memref<?x576xf32, "shared_dram"> -> !lpu_kernel.tile<8x576xf32>
      %u = lpu_kernel.fold add %t [1] : !lpu_kernel.tile<8x576xf32> -> !lpu_kernel.tile<8xf32>
      lpu_kernel.store %u, %y[%r] : !lpu_kernel.tile<8xf32>, memref<?xf32, "shared_dram">
    }
    %v = lpu_kernel.load %x[0, 0] [1, 576] : memref<?x576xf32, "shared_dram"> -> !lpu_kernel.tile<1x576xf32>
  }
}

// The window does not depend on the core, but how often it is read does.
// CHECK-LABEL: @loop_bounds_depend_on_the_core
// CHECK:         lpu_kernel.for sequential %i = 0 to %c step 1 {
// CHECK-NEXT:      lpu_kernel.request @ch0 %x[%i] [1] to each
// CHECK:         lpu_kernel.for sequential %{{.*}} = 0 to 4 step 1 {
// CHECK-NEXT:      lpu_kernel.request @ch1 %x[%{{.*}}] [1] to all
lpu_kernel.kernel @loop_bounds_depend_on_the_core(%x: memref<8xf32, "shared_dram">) access [ro] cores 8 {
  lpu_kernel.phase cores(%c) {
    lpu_kernel.for sequential %i = 0 to %c step 1 {
      %t = lpu_kernel.load %x[%i] [1] : memref<8xf32, "shared_dram"> -> !lpu_kernel.tile<1xf32>
    }
    lpu_kernel.for sequential %i = 0 to 4 step 1 {
      %t = lpu_kernel.load %x[%i] [1] : memref<8xf32, "shared_dram"> -> !lpu_kernel.tile<1xf32>
    }
  }
}

// What a loop carries stays in the cores.
// CHECK-LABEL: @carried
// CHECK:       lpu_kernel.phase top(%c) {
// CHECK-NEXT:    lpu_kernel.for reduction %i = 0 to 8 step 4 {
// CHECK-NEXT:      lpu_kernel.request @ch0 %x[%i] [4] to all
// CHECK-NEXT:    }
// CHECK-NEXT:  } cores
// CHECK-NEXT:    %z = lpu_kernel.fill
// CHECK-NEXT:    %s = lpu_kernel.for reduction %{{.*}} = 0 to 8 step 4 iter_args(%a = %z) -> (!lpu_kernel.tile<f32>) {
// CHECK-NEXT:      %t = lpu_kernel.receive @ch0
lpu_kernel.kernel @carried(%x: memref<8xf32, "shared_dram">) access [ro] cores 8 {
  lpu_kernel.phase cores(%c) {
    %z = lpu_kernel.fill 0.0 : f32 [] -> !lpu_kernel.tile<f32>
    %s = lpu_kernel.for reduction %i = 0 to 8 step 4 iter_args(%a = %z) -> (!lpu_kernel.tile<f32>) {
      %t = lpu_kernel.load %x[%i] [4] : memref<8xf32, "shared_dram"> -> !lpu_kernel.tile<4xf32>
      %b = lpu_kernel.fold add %t [0] acc(%a : !lpu_kernel.tile<f32>) : !lpu_kernel.tile<4xf32> -> !lpu_kernel.tile<f32>
      lpu_kernel.yield %b : !lpu_kernel.tile<f32>
    }
  }
}

// Top has no tiles, so what is indexed by one stays; the index itself and a scalar index move.
// CHECK-LABEL: @indexed
// CHECK:         lpu_kernel.request @ch0 %p[0] [4] to all
// CHECK-NEXT:    lpu_kernel.request @ch1 %x[0, 0] [1, 16] index 0 by %n to all : memref<8x16xf32, "shared_dram">, index
// CHECK:         %i = lpu_kernel.receive @ch0
// CHECK-NEXT:    %t = lpu_kernel.load %x[0, 0] [1, 16] index 0 by %i
// CHECK-NEXT:    %u = lpu_kernel.receive @ch1 : !lpu_kernel.tile<16xf32>
lpu_kernel.kernel @indexed(%x: memref<8x16xf32, "shared_dram">, %p: memref<4xi64, "shared_dram">, %n: index) access [ro, ro] cores 8 {
  lpu_kernel.phase cores(%c) {
    %i = lpu_kernel.load %p[0] [4] : memref<4xi64, "shared_dram"> -> !lpu_kernel.tile<4xi64>
    %t = lpu_kernel.load %x[0, 0] [1, 16] index 0 by %i : memref<8x16xf32, "shared_dram">, !lpu_kernel.tile<4xi64> -> !lpu_kernel.tile<4x16xf32>
    %u = lpu_kernel.load %x[0, 0] [1, 16] index 0 by %n : memref<8x16xf32, "shared_dram">, index -> !lpu_kernel.tile<16xf32>
  }
}

// A request would run ahead of this phase's stores; those of the phase before are done.
// CHECK-LABEL: @stored
// CHECK:       lpu_kernel.phase cores(%c) {
// CHECK-NOT:   lpu_kernel.request
// CHECK:         lpu_kernel.load %x[%c] [1]
// CHECK:       lpu_kernel.phase top
// CHECK-NEXT:    lpu_kernel.request @ch0 %x[0] [8] to all
lpu_kernel.kernel @stored(%x: memref<8xf32, "shared_dram">) access [rw] cores 8 {
  lpu_kernel.phase cores(%c) {
    %z = lpu_kernel.fill 0.0 : f32 [1] -> !lpu_kernel.tile<1xf32>
    lpu_kernel.store %z, %x[%c] : !lpu_kernel.tile<1xf32>, memref<8xf32, "shared_dram">
    %t = lpu_kernel.load %x[%c] [1] : memref<8xf32, "shared_dram"> -> !lpu_kernel.tile<1xf32>
  }
  lpu_kernel.phase cores(%c) {
    %t = lpu_kernel.load %x[0] [8] : memref<8xf32, "shared_dram"> -> !lpu_kernel.tile<8xf32>
  }
}

// CHECK-LABEL: @nothing_to_move
// CHECK-NEXT:    lpu_kernel.phase cores(%c) {
// CHECK-NEXT:      %z = lpu_kernel.fill
// CHECK-NEXT:    }
lpu_kernel.kernel @nothing_to_move() access [] cores 8 {
  lpu_kernel.phase cores(%c) {
    %z = lpu_kernel.fill 0.0 : f32 [1] -> !lpu_kernel.tile<1xf32>
  }
}
