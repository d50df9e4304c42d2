// RUN: lpu-opt -p allocate-sram --split-input-file %s | filecheck %s
// RUN: lpu-opt -p "allocate-sram{sram-bytes=1024}" --split-input-file --verify-diagnostics %s | filecheck --check-prefix=SMALL %s

// CHECK-LABEL: @reuse
lpu_kernel.kernel @reuse(%y: memref<64xf32, "shared_dram">) access [wo] cores 1 {
  lpu_kernel.phase cores(%c) {
    // CHECK:      %a = lpu_kernel.fill 0.000000e+00 : f32 [64] sram [0]
    %a = lpu_kernel.fill 0.0 : f32 [64] -> !lpu_kernel.tile<64xf32>
    // CHECK-NEXT: %b = lpu_kernel.fill 1.000000e+00 : f32 [64] sram [256]
    %b = lpu_kernel.fill 1.0 : f32 [64] -> !lpu_kernel.tile<64xf32>
    lpu_kernel.store %a, %y[0] : !lpu_kernel.tile<64xf32>, memref<64xf32, "shared_dram">
    // The bytes of %a are free, but too few; behind %b there is room.
    // CHECK:      %d = lpu_kernel.fill 2.000000e+00 : f32 [80] sram [512]
    %d = lpu_kernel.fill 2.0 : f32 [80] -> !lpu_kernel.tile<80xf32>
    // CHECK-NEXT: %e = lpu_kernel.fill 3 : i8 [3] sram [0]
    %e = lpu_kernel.fill 3 : i8 [3] -> !lpu_kernel.tile<3xi8>
    // Aligned to 64 bytes. What nothing uses needs its bytes all the same.
    // CHECK-NEXT: %f = lpu_kernel.fill 4 : i8 [3] sram [64]
    %f = lpu_kernel.fill 4 : i8 [3] -> !lpu_kernel.tile<3xi8>
    // CHECK-NEXT: %g, %h = lpu_kernel.map [3] ins({{.*}}) -> (!lpu_kernel.tile<64xf32>, !lpu_kernel.tile<3xi8>) sram [832, 64]
    %g, %h = lpu_kernel.map [3] ins(%e as [0] : !lpu_kernel.tile<3xi8>) -> (!lpu_kernel.tile<64xf32>, !lpu_kernel.tile<3xi8>) {
    ^bb0(%i: index, %v: i8):
      %w = arith.sitofp %v : i8 to f32
      lpu_kernel.yield %w, %v : f32, i8
    }
    lpu_kernel.store %b, %y[0] : !lpu_kernel.tile<64xf32>, memref<64xf32, "shared_dram">
    lpu_kernel.store %d, %y[0] : !lpu_kernel.tile<80xf32>, memref<64xf32, "shared_dram">
  }
  // Another phase starts with all of it.
  // CHECK: lpu_kernel.phase
  lpu_kernel.phase cores(%c) {
    // CHECK-NEXT: %a_1 = lpu_kernel.fill 0.000000e+00 : f32 [64] sram [0]
    %a = lpu_kernel.fill 0.0 : f32 [64] -> !lpu_kernel.tile<64xf32>
    // Not in SRAM.
    // CHECK-NEXT: %m = lpu_kernel.fill 0.000000e+00 : f32 [64] sram [-1]
    %m = lpu_kernel.fill 0.0 : f32 [64] -> !lpu_kernel.tile<64xf32, "mpu_buffer">
    // CHECK-NEXT: lpu_kernel.store
    lpu_kernel.store %a, %y[0] : !lpu_kernel.tile<64xf32>, memref<64xf32, "shared_dram">
  }
}

// -----

// CHECK-LABEL: @loops
lpu_kernel.kernel @loops(%y: memref<64xf32, "shared_dram">) access [wo] cores 1 {
  lpu_kernel.phase cores(%c) {
    // Used inside the loop, so that every trip needs it.
    // CHECK:      %t = lpu_kernel.fill 0.000000e+00 : f32 [64] sram [0]
    %t = lpu_kernel.fill 0.0 : f32 [64] -> !lpu_kernel.tile<64xf32>
    // Copied into the loop's own buffer when it starts.
    // CHECK-NEXT: %z = lpu_kernel.fill 0.000000e+00 : f32 [64] sram [256]
    %z = lpu_kernel.fill 0.0 : f32 [64] -> !lpu_kernel.tile<64xf32>
    // CHECK-NEXT: %s = lpu_kernel.for sequential %i = 0 to 4 step 1 iter_args(%a = %z) -> (!lpu_kernel.tile<64xf32>) sram [512] {
    %s = lpu_kernel.for sequential %i = 0 to 4 step 1 iter_args(%a = %z) -> (!lpu_kernel.tile<64xf32>) {
      lpu_kernel.store %t, %y[0] : !lpu_kernel.tile<64xf32>, memref<64xf32, "shared_dram">
      // CHECK:      %u = lpu_kernel.slice %a[0] [64] sram [256]
      %u = lpu_kernel.slice %a[0] [64] : !lpu_kernel.tile<64xf32> -> !lpu_kernel.tile<64xf32>
      // CHECK-NEXT: %v = lpu_kernel.slice %u[0] [64] sram [768]
      %v = lpu_kernel.slice %u[0] [64] : !lpu_kernel.tile<64xf32> -> !lpu_kernel.tile<64xf32>
      lpu_kernel.yield %v : !lpu_kernel.tile<64xf32>
    }
    // CHECK: %w = lpu_kernel.slice %s[0] [64] sram [0]
    %w = lpu_kernel.slice %s[0] [64] : !lpu_kernel.tile<64xf32> -> !lpu_kernel.tile<64xf32>
  }
}

// -----

// CHECK-LABEL: @channels
lpu_kernel.kernel @channels(%x: memref<64xf32, "shared_dram">) access [ro] cores 1 {
  // A channel's buffers may fill from the start of its phase.
  // CHECK-NEXT: lpu_kernel.channel @a depth 2 sram [0]
  lpu_kernel.channel @a depth 2 : !lpu_kernel.tile<64xf32>
  // CHECK-NEXT: lpu_kernel.channel @b depth 1 sram [0]
  lpu_kernel.channel @b depth 1 : !lpu_kernel.tile<64xf32>
  lpu_kernel.phase top(%d) {
    lpu_kernel.request @a %x[0] [64] to all : memref<64xf32, "shared_dram">
  } cores(%c) {
    // CHECK: %z = lpu_kernel.fill 0.000000e+00 : f32 [64] sram [512]
    %z = lpu_kernel.fill 0.0 : f32 [64] -> !lpu_kernel.tile<64xf32>
    // CHECK-NEXT: %t = lpu_kernel.receive @a : !lpu_kernel.tile<64xf32>
    %t = lpu_kernel.receive @a : !lpu_kernel.tile<64xf32>
  }
  lpu_kernel.phase top(%d) {
    lpu_kernel.request @b %x[0] [64] to all : memref<64xf32, "shared_dram">
  } cores(%c) {
    %t = lpu_kernel.receive @b : !lpu_kernel.tile<64xf32>
  }
}

// -----

// SMALL: lpu_kernel.fill needs 512 bytes, which do not fit an SRAM of 1024 bytes beside what is live with it: lpu_kernel.load 768
lpu_kernel.kernel @too_much(%x: memref<192xf32, "shared_dram">, %y: memref<192xf32, "shared_dram">) access [ro, wo] cores 1 {
  lpu_kernel.phase cores(%c) {
    %t = lpu_kernel.load %x[0] [192] : memref<192xf32, "shared_dram"> -> !lpu_kernel.tile<192xf32>
    %z = lpu_kernel.fill 0.0 : f32 [128] -> !lpu_kernel.tile<128xf32>
    lpu_kernel.store %t, %y[0] : !lpu_kernel.tile<192xf32>, memref<192xf32, "shared_dram">
  }
}

// -----

// In turn they fit.
// SMALL-LABEL: @in_turn
lpu_kernel.kernel @in_turn(%x: memref<192xf32, "shared_dram">, %y: memref<192xf32, "shared_dram">) access [ro, wo] cores 1 {
  lpu_kernel.phase cores(%c) {
    // SMALL: %t = lpu_kernel.load %x[0] [192] sram [0]
    %t = lpu_kernel.load %x[0] [192] : memref<192xf32, "shared_dram"> -> !lpu_kernel.tile<192xf32>
    lpu_kernel.store %t, %y[0] : !lpu_kernel.tile<192xf32>, memref<192xf32, "shared_dram">
    // SMALL: %z = lpu_kernel.fill 0.000000e+00 : f32 [128] sram [0]
    %z = lpu_kernel.fill 0.0 : f32 [128] -> !lpu_kernel.tile<128xf32>
  }
}

// -----

// SMALL: lpu_kernel.channel needs 2048 bytes, which do not fit an SRAM of 1024 bytes beside what is live with it: nothing
lpu_kernel.kernel @too_deep(%x: memref<256xf32, "shared_dram">) access [ro] cores 1 {
  lpu_kernel.channel @a depth 2 : !lpu_kernel.tile<256xf32>
  lpu_kernel.phase top(%d) {
    lpu_kernel.request @a %x[0] [256] to all : memref<256xf32, "shared_dram">
  } cores(%c) {
    %t = lpu_kernel.receive @a : !lpu_kernel.tile<256xf32>
  }
}

// -----

// Windows take no place; what they look at keeps its own until they were last used.
// CHECK-LABEL: @windows
// SMALL-LABEL: @windows
lpu_kernel.kernel @windows(%x: memref<64xf32, "shared_dram">, %y: memref<31xf32, "shared_dram">) access [ro, wo] cores 1 {
  lpu_kernel.phase cores(%c) {
    // CHECK:      %t = lpu_kernel.load %x[0] [64] sram [0]
    %t = lpu_kernel.load %x[0] [64] : memref<64xf32, "shared_dram"> -> !lpu_kernel.tile<64xf32>
    // CHECK-NEXT: %w = lpu_kernel.windows %t along [0, 0] steps [2, 1] [31, 3] : !lpu_kernel.tile<64xf32>
    %w = lpu_kernel.windows %t along [0, 0] steps [2, 1] [31, 3] : !lpu_kernel.tile<64xf32> -> !lpu_kernel.tile<31x3xf32>
    // CHECK-NEXT: %z = lpu_kernel.fill 0.000000e+00 : f32 [31] sram [256]
    %z = lpu_kernel.fill 0.0 : f32 [31] -> !lpu_kernel.tile<31xf32>
    // CHECK-NEXT: %f = lpu_kernel.fold max %w [1] acc(%z : !lpu_kernel.tile<31xf32>) sram [384]
    %f = lpu_kernel.fold max %w [1] acc(%z : !lpu_kernel.tile<31xf32>) : !lpu_kernel.tile<31x3xf32> -> !lpu_kernel.tile<31xf32>
    lpu_kernel.store %f, %y[0] : !lpu_kernel.tile<31xf32>, memref<31xf32, "shared_dram">
  }
}
