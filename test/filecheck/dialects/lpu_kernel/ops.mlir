// RUN: lpu-opt %s | lpu-opt | filecheck %s
// RUN: lpu-opt --print-op-generic %s | lpu-opt | filecheck %s

// CHECK:      lpu_kernel.kernel @movement(%x: memref<64x576xf32, "shared_dram">,
// CHECK-SAME:     %n: index) access [ro, rw] cores 8 {
lpu_kernel.kernel @movement(%x: memref<64x576xf32, "shared_dram">,
                            %y: memref<64x576xf32, "private_dram">, %n: index)
    access [ro, rw] cores 8 {
  // CHECK-NEXT: lpu_kernel.phase cores(%c) {
  lpu_kernel.phase cores(%c) {
    // CHECK-NEXT: %o = lpu_kernel.apply <8 * d0 + min(3, d1)>(%c, %n)
    %o = lpu_kernel.apply <8 * d0 + min(d1, 3)>(%c, %n)
    // CHECK-NEXT: %t = lpu_kernel.load %x[%o, 0] [8, %n] : memref<64x576xf32, "shared_dram"> -> !lpu_kernel.tile<8x576xf32>
    %t = lpu_kernel.load %x[%o, 0] [8, %n] : memref<64x576xf32, "shared_dram"> -> !lpu_kernel.tile<8x576xf32>
    // CHECK-NEXT: lpu_kernel.store %t, %y[%o, 0] : !lpu_kernel.tile<8x576xf32>, memref<64x576xf32, "private_dram">
    lpu_kernel.store %t, %y[%o, 0] : !lpu_kernel.tile<8x576xf32>, memref<64x576xf32, "private_dram">
    // CHECK-NEXT: %rows = lpu_kernel.fill 3 : i64 [4] -> !lpu_kernel.tile<4xi64>
    %rows = lpu_kernel.fill 3 : i64 [4] -> !lpu_kernel.tile<4xi64>
    // CHECK-NEXT: %g = lpu_kernel.load %x[0, %o] [1, 16] index 0 by %rows : memref<64x576xf32, "shared_dram">, !lpu_kernel.tile<4xi64> -> !lpu_kernel.tile<4x16xf32>
    %g = lpu_kernel.load %x[0, %o] [1, 16] index 0 by %rows : memref<64x576xf32, "shared_dram">, !lpu_kernel.tile<4xi64> -> !lpu_kernel.tile<4x16xf32>
    // CHECK-NEXT: %r = lpu_kernel.load %x[0, 0] [1, 16] index 0 by %o : memref<64x576xf32, "shared_dram">, index -> !lpu_kernel.tile<16xf32>
    %r = lpu_kernel.load %x[0, 0] [1, 16] index 0 by %o : memref<64x576xf32, "shared_dram">, index -> !lpu_kernel.tile<16xf32>
    // CHECK-NEXT: lpu_kernel.store %g, %y[0, 0] index 0 by %rows : !lpu_kernel.tile<4x16xf32>, memref<64x576xf32, "private_dram">, !lpu_kernel.tile<4xi64>
    lpu_kernel.store %g, %y[0, 0] index 0 by %rows : !lpu_kernel.tile<4x16xf32>, memref<64x576xf32, "private_dram">, !lpu_kernel.tile<4xi64>
    // CHECK-NEXT: lpu_kernel.store add %g, %y[0, 0] index 0 by %rows : !lpu_kernel.tile<4x16xf32>, memref<64x576xf32, "private_dram">, !lpu_kernel.tile<4xi64>
    lpu_kernel.store add %g, %y[0, 0] index 0 by %rows : !lpu_kernel.tile<4x16xf32>, memref<64x576xf32, "private_dram">, !lpu_kernel.tile<4xi64>
    // CHECK-NEXT: lpu_kernel.store mul %g, %y[0, 0] index 0 by %rows : !lpu_kernel.tile<4x16xf32>, memref<64x576xf32, "private_dram">, !lpu_kernel.tile<4xi64>
    lpu_kernel.store mul %g, %y[0, 0] index 0 by %rows : !lpu_kernel.tile<4x16xf32>, memref<64x576xf32, "private_dram">, !lpu_kernel.tile<4xi64>
  // CHECK-NEXT: }
  }
}

// CHECK: lpu_kernel.kernel @channels
lpu_kernel.kernel @channels(%x: memref<64x?xf32, "shared_dram">, %n: index) access [ro] cores 8 {
  // CHECK: lpu_kernel.channel @rows depth 2 : !lpu_kernel.tile<1x64xf32>
  lpu_kernel.channel @rows depth 2 : !lpu_kernel.tile<1x64xf32>
  // CHECK-NEXT: lpu_kernel.channel @first depth 1 sram [512] : !lpu_kernel.tile<64xf32>
  lpu_kernel.channel @first depth 1 sram [512] : !lpu_kernel.tile<64xf32>
  // CHECK-NEXT: lpu_kernel.phase top(%d) {
  lpu_kernel.phase top(%d) {
    // CHECK-NEXT: lpu_kernel.request @first %x[0, 0] [1, %n] index 0 by %n to all : memref<64x?xf32, "shared_dram">, index
    lpu_kernel.request @first %x[0, 0] [1, %n] index 0 by %n to all : memref<64x?xf32, "shared_dram">, index
    // CHECK-NEXT: lpu_kernel.for sequential %i = 0 to %n step 1 {
    lpu_kernel.for sequential %i = 0 to %n step 1 {
      // CHECK-NEXT: lpu_kernel.request @rows %x[%d, 0] [1, %n] to each : memref<64x?xf32, "shared_dram">
      lpu_kernel.request @rows %x[%d, 0] [1, %n] to each : memref<64x?xf32, "shared_dram">
    }
  // CHECK: } cores(%c) {
  } cores(%c) {
    // CHECK-NEXT: %f = lpu_kernel.receive @first : !lpu_kernel.tile<64xf32>
    %f = lpu_kernel.receive @first : !lpu_kernel.tile<64xf32>
    lpu_kernel.for sequential %i = 0 to %n step 1 {
      // CHECK: %t = lpu_kernel.receive @rows : !lpu_kernel.tile<1x64xf32>
      %t = lpu_kernel.receive @rows : !lpu_kernel.tile<1x64xf32>
    }
  }
}

// CHECK: lpu_kernel.kernel @compute
lpu_kernel.kernel @compute(%n: index) access [] cores 1 {
  lpu_kernel.phase cores(%c) {
    // CHECK: %z = lpu_kernel.fill 0.000000e+00 : f32 [8, %n] sram [0] -> !lpu_kernel.tile<8x64xf32>
    %z = lpu_kernel.fill 0.0 : f32 [8, %n] sram [0] -> !lpu_kernel.tile<8x64xf32>
    // CHECK-NEXT: %w = lpu_kernel.fill 1.000000e+00 : bf16 [4, %n] -> !lpu_kernel.tile<4x64xbf16, "mpu_buffer">
    %w = lpu_kernel.fill 1.0 : bf16 [4, %n] -> !lpu_kernel.tile<4x64xbf16, "mpu_buffer">
    // CHECK-NEXT: %v = lpu_kernel.slice %z[%c, 0] [1, %n] : !lpu_kernel.tile<8x64xf32> -> !lpu_kernel.tile<1x64xf32>
    %v = lpu_kernel.slice %z[%c, 0] [1, %n] : !lpu_kernel.tile<8x64xf32> -> !lpu_kernel.tile<1x64xf32>
    // CHECK-NEXT: %last = lpu_kernel.slice %z[0, %n] [8, 1] drop [1] : !lpu_kernel.tile<8x64xf32> -> !lpu_kernel.tile<8xf32>
    %last = lpu_kernel.slice %z[0, %n] [8, 1] drop [1] : !lpu_kernel.tile<8x64xf32> -> !lpu_kernel.tile<8xf32>
    // CHECK-NEXT: %win = lpu_kernel.windows %z along [0, 1, 1] steps [1, 2, 1] [8, %n, 3] : !lpu_kernel.tile<8x64xf32> -> !lpu_kernel.tile<8x31x3xf32>
    %win = lpu_kernel.windows %z along [0, 1, 1] steps [1, 2, 1] [8, %n, 3] : !lpu_kernel.tile<8x64xf32> -> !lpu_kernel.tile<8x31x3xf32>
    // CHECK-NEXT: %u = lpu_kernel.fold add %v [0] : !lpu_kernel.tile<1x64xf32> -> !lpu_kernel.tile<64xf32>
    %u = lpu_kernel.fold add %v [0] : !lpu_kernel.tile<1x64xf32> -> !lpu_kernel.tile<64xf32>
    // CHECK-NEXT: %m, %k = lpu_kernel.map [8, %n] at [%c, 0] ins(%z as [0, 1], %u as [1] : !lpu_kernel.tile<8x64xf32>, !lpu_kernel.tile<64xf32>) -> (!lpu_kernel.tile<8x64xf32>, !lpu_kernel.tile<8x64xi1>) sram [2048, 4096] {
    // CHECK-NEXT: ^bb{{[0-9]+}}(%i: index, %j: index, %a: f32, %b: f32):
    %m, %k = lpu_kernel.map [8, %n] at [%c, 0] ins(%z as [0, 1], %u as [1] : !lpu_kernel.tile<8x64xf32>, !lpu_kernel.tile<64xf32>) -> (!lpu_kernel.tile<8x64xf32>, !lpu_kernel.tile<8x64xi1>) sram [2048, 4096] {
    ^bb0(%i: index, %j: index, %a: f32, %b: f32):
      %s = arith.addf %a, %b : f32
      %l = arith.cmpi slt, %i, %j : index
      // CHECK: lpu_kernel.yield %s, %l : f32, i1
      lpu_kernel.yield %s, %l : f32, i1
    }
    // CHECK: %e = lpu_kernel.map [] -> (!lpu_kernel.tile<f32>) {
    %e = lpu_kernel.map [] -> (!lpu_kernel.tile<f32>) {
      %one = arith.constant 1.0 : f32
      lpu_kernel.yield %one : f32
    }
    // CHECK: %f = lpu_kernel.fold add %z [1] : !lpu_kernel.tile<8x64xf32> -> !lpu_kernel.tile<8xf32>
    %f = lpu_kernel.fold add %z [1] : !lpu_kernel.tile<8x64xf32> -> !lpu_kernel.tile<8xf32>
    // CHECK-NEXT: %f2 = lpu_kernel.fold max %z [1] acc(%f : !lpu_kernel.tile<8xf32>) : !lpu_kernel.tile<8x64xf32> -> !lpu_kernel.tile<8xf32>
    %f2 = lpu_kernel.fold max %z [1] acc(%f : !lpu_kernel.tile<8xf32>) : !lpu_kernel.tile<8x64xf32> -> !lpu_kernel.tile<8xf32>
    // CHECK-NEXT: %av, %ai = lpu_kernel.arg_fold max %z dim 1 at [0] : !lpu_kernel.tile<8x64xf32> -> !lpu_kernel.tile<8xf32>, !lpu_kernel.tile<8xi64>
    %av, %ai = lpu_kernel.arg_fold max %z dim 1 at [0] : !lpu_kernel.tile<8x64xf32> -> !lpu_kernel.tile<8xf32>, !lpu_kernel.tile<8xi64>
    // CHECK-NEXT: %bv, %bi = lpu_kernel.arg_fold min %z dim 1 at [%n] acc(%av, %ai : !lpu_kernel.tile<8xf32>, !lpu_kernel.tile<8xi64>) : !lpu_kernel.tile<8x64xf32> -> !lpu_kernel.tile<8xf32>, !lpu_kernel.tile<8xi64>
    %bv, %bi = lpu_kernel.arg_fold min %z dim 1 at [%n] acc(%av, %ai : !lpu_kernel.tile<8xf32>, !lpu_kernel.tile<8xi64>) : !lpu_kernel.tile<8x64xf32> -> !lpu_kernel.tile<8xf32>, !lpu_kernel.tile<8xi64>
    // CHECK-NEXT: %p = lpu_kernel.scan add %z dim 1 carry(%f : !lpu_kernel.tile<8xf32>) : !lpu_kernel.tile<8x64xf32> -> !lpu_kernel.tile<8x64xf32>
    %p = lpu_kernel.scan add %z dim 1 carry(%f : !lpu_kernel.tile<8xf32>) : !lpu_kernel.tile<8x64xf32> -> !lpu_kernel.tile<8x64xf32>
    // CHECK-NEXT: %ct = lpu_kernel.contract %z as [0, 2], %w as [1, 2] : !lpu_kernel.tile<8x64xf32>, !lpu_kernel.tile<4x64xbf16, "mpu_buffer"> -> !lpu_kernel.tile<8x4xf32>
    %ct = lpu_kernel.contract %z as [0, 2], %w as [1, 2] : !lpu_kernel.tile<8x64xf32>, !lpu_kernel.tile<4x64xbf16, "mpu_buffer"> -> !lpu_kernel.tile<8x4xf32>
    // CHECK-NEXT: %cu = lpu_kernel.contract %z as [0, 2], %w as [1, 2] acc(%ct : !lpu_kernel.tile<8x4xf32>) : !lpu_kernel.tile<8x64xf32>, !lpu_kernel.tile<4x64xbf16, "mpu_buffer"> -> !lpu_kernel.tile<8x4xf32>
    %cu = lpu_kernel.contract %z as [0, 2], %w as [1, 2] acc(%ct : !lpu_kernel.tile<8x4xf32>) : !lpu_kernel.tile<8x64xf32>, !lpu_kernel.tile<4x64xbf16, "mpu_buffer"> -> !lpu_kernel.tile<8x4xf32>
    // CHECK-NEXT: lpu_kernel.check %k, "IndexError", "out of range" : !lpu_kernel.tile<8x64xi1>
    lpu_kernel.check %k, "IndexError", "out of range" : !lpu_kernel.tile<8x64xi1>
    // CHECK-NEXT: %r, %q = lpu_kernel.for reduction %{{.*}} = 0 to %n step 64 iter_args(%x = %f, %y = %f2) -> (!lpu_kernel.tile<8xf32>, !lpu_kernel.tile<8xf32>) sram [0, 64] {
    %r, %q = lpu_kernel.for reduction %i = 0 to %n step 64 iter_args(%x = %f, %y = %f2) -> (!lpu_kernel.tile<8xf32>, !lpu_kernel.tile<8xf32>) sram [0, 64] {
      // CHECK-NEXT: lpu_kernel.yield %y, %x : !lpu_kernel.tile<8xf32>, !lpu_kernel.tile<8xf32>
      lpu_kernel.yield %y, %x : !lpu_kernel.tile<8xf32>, !lpu_kernel.tile<8xf32>
    }
    // CHECK: lpu_kernel.for parallel %{{.*}} = %c to 8 step %n {
    lpu_kernel.for parallel %i = %c to 8 step %n {
    }
  }
}

// CHECK: lpu_kernel.kernel @nothing() access [] cores 1 {
lpu_kernel.kernel @nothing() access [] cores 1 {
}
