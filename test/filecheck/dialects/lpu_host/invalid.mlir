// RUN: lpu-opt --split-input-file --verify-diagnostics --parsing-diagnostics %s | filecheck %s

// CHECK: gives memref<256xi8, "shared_dram">, expected memref<128xi8, "shared_dram">
%r = lpu_host.arena <128> lower_bound <128> : memref<256xi8, "shared_dram">

// -----

// CHECK: expected memref<64xi8, "shared_dram">
%r = lpu_host.arena <64> lower_bound <64> : memref<16xf32, "shared_dram">

// -----

%a = "test.op"() : () -> (memref<256xi8, "shared_dram">)
// CHECK: takes its buffer from lpu_host.arena
%0 = lpu_host.carve %a at <0> : memref<256xi8, "shared_dram"> -> memref<4xf32, "shared_dram">

// -----

%r = lpu_host.arena <256> lower_bound <128> : memref<256xi8, "shared_dram">
// CHECK: offset 32 is no multiple of 64
%0 = lpu_host.carve %r at <32> : memref<256xi8, "shared_dram"> -> memref<4xf32, "shared_dram">

// -----

%r = lpu_host.arena <256> lower_bound <128> : memref<256xi8, "shared_dram">
// CHECK: offset -64 is no multiple of 64
%0 = lpu_host.carve %r at <-64> : memref<256xi8, "shared_dram"> -> memref<4xf32, "shared_dram">

// -----

%r = lpu_host.arena <256> lower_bound <128> : memref<256xi8, "shared_dram">
// CHECK: 80 bytes at 192 reach beyond the arena's 256
%0 = lpu_host.carve %r at <192> : memref<256xi8, "shared_dram"> -> memref<20xf32, "shared_dram">

// -----

%a = "test.op"() : () -> (memref<4xf32, "shared_dram">)
// CHECK: views elements of f32 as i32
%0 = lpu_host.view %a : memref<4xf32, "shared_dram"> -> memref<4xi32, "shared_dram">

// -----

%a = "test.op"() : () -> (memref<4xf32, "shared_dram">)
// CHECK: the view ends at element 5, the buffer at 4
%0 = lpu_host.view %a : memref<4xf32, "shared_dram"> -> memref<5xf32, "shared_dram">

// -----

%a = "test.op"() : () -> (memref<6xf32, "shared_dram">)
// CHECK: the view ends at element 7, the buffer at 6
%0 = lpu_host.view %a : memref<6xf32, "shared_dram"> -> memref<2x2xf32, #lpu.layout<[2, 2], [3, 2], 1>, "shared_dram">

// -----

lpu_kernel.kernel @k(%x: memref<4x?xf32, "shared_dram">, %n: index) access [ro] cores 1 {
  lpu_kernel.phase cores(%c) {
  }
}
%a = "test.op"() : () -> (memref<4x8xf32, "shared_dram">)
// CHECK: no kernel is called @f
lpu_host.launch @f(%a) indices <[s0]> : memref<4x8xf32, "shared_dram">

// -----

lpu_kernel.kernel @k(%x: memref<4x?xf32, "shared_dram">, %n: index) access [ro] cores 1 {
  lpu_kernel.phase cores(%c) {
  }
}
%a, %b = "test.op"() : () -> (memref<4x8xf32, "shared_dram">, memref<4x8xf32, "shared_dram">)
// CHECK: @k takes 1 buffers, got 2
lpu_host.launch @k(%a, %b) indices <[s0]> : memref<4x8xf32, "shared_dram">, memref<4x8xf32, "shared_dram">

// -----

lpu_kernel.kernel @k(%x: memref<4x?xf32, "shared_dram">, %n: index) access [ro] cores 1 {
  lpu_kernel.phase cores(%c) {
  }
}
%a = "test.op"() : () -> (memref<4x8xf32, "shared_dram">)
// CHECK: @k takes 1 indices, got 0
lpu_host.launch @k(%a) indices <[]> : memref<4x8xf32, "shared_dram">

// -----

lpu_kernel.kernel @k(%x: memref<4x?xf32, "shared_dram">, %n: index) access [ro] cores 1 {
  lpu_kernel.phase cores(%c) {
  }
}
%a = "test.op"() : () -> (memref<5x8xf32, "shared_dram">)
// CHECK: buffer 0 is memref<5x8xf32, "shared_dram">, @k takes memref<4x?xf32, "shared_dram">
lpu_host.launch @k(%a) indices <[s0]> : memref<5x8xf32, "shared_dram">

// -----

lpu_kernel.kernel @k(%x: memref<4x?xf32, "shared_dram">, %n: index) access [ro] cores 1 {
  lpu_kernel.phase cores(%c) {
  }
}
%a = "test.op"() : () -> (memref<4xf32, "shared_dram">)
// CHECK: buffer 0 is memref<4xf32, "shared_dram">, @k takes memref<4x?xf32, "shared_dram">
lpu_host.launch @k(%a) indices <[s0]> : memref<4xf32, "shared_dram">

// -----

lpu_kernel.kernel @k(%x: memref<4x?xf32, "shared_dram">, %n: index) access [ro] cores 1 {
  lpu_kernel.phase cores(%c) {
  }
}
%a = "test.op"() : () -> (memref<4x8xf64, "shared_dram">)
// CHECK: buffer 0 is memref<4x8xf64, "shared_dram">, @k takes memref<4x?xf32, "shared_dram">
lpu_host.launch @k(%a) indices <[s0]> : memref<4x8xf64, "shared_dram">

// -----

lpu_kernel.kernel @k(%x: memref<4x?xf32, "shared_dram">, %n: index) access [ro] cores 1 {
  lpu_kernel.phase cores(%c) {
  }
}
%a = "test.op"() : () -> (memref<4x?xf32, "shared_dram">)
// CHECK: has a dynamic dimension but no symbolic extents
lpu_host.launch @k(%a) indices <[s0]> : memref<4x?xf32, "shared_dram">
