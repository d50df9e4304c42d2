// RUN: lpu-opt %s | lpu-opt | filecheck %s
// RUN: lpu-opt --print-op-generic %s | lpu-opt | filecheck %s

// CHECK-LABEL: lpu_kernel.kernel @k(%x: memref<4x?xf32, "shared_dram">, %y: memref<24xf32, "shared_dram">, %n: index) access [ro, wo] cores 1 {
lpu_kernel.kernel @k(%x: memref<4x?xf32, "shared_dram">, %y: memref<24xf32, "shared_dram">, %n: index) access [ro, wo] cores 1 {
  // CHECK-NEXT: lpu_kernel.phase cores(%c) {
  lpu_kernel.phase cores(%c) {
  // CHECK-NEXT: }
  }
// CHECK-NEXT: }
}
// CHECK-LABEL: func.func @main() attributes {lpu.symbols = [#lpu.symbol<"s0", 1, -1, 7>]} {
func.func @main() attributes {lpu.symbols = [#lpu.symbol<"s0", 1, -1, 7>]} {
  // CHECK-NEXT: %a = lpu_host.alloc : memref<4x?xf32, #lpu.layout<[4, s0], [s0, 1], 0>, "shared_dram">
  %a = lpu_host.alloc : memref<4x?xf32, #lpu.layout<[4, s0], [s0, 1], 0>, "shared_dram">
  // CHECK-NEXT: %r = lpu_host.arena <max(256, 64 * s0)> lower_bound <128> : memref<?xi8, #lpu.layout<[max(256, 64 * s0)], [1], 0>, "shared_dram">
  %r = lpu_host.arena <max(256, 64 * s0)> lower_bound <128> : memref<?xi8, #lpu.layout<[max(256, 64 * s0)], [1], 0>, "shared_dram">
  // CHECK-NEXT: %b = lpu_host.carve %r at <64 * s0> : memref<?xi8, #lpu.layout<[max(256, 64 * s0)], [1], 0>, "shared_dram"> -> memref<24xf32, "shared_dram">
  %b = lpu_host.carve %r at <64 * s0> : memref<?xi8, #lpu.layout<[max(256, 64 * s0)], [1], 0>, "shared_dram"> -> memref<24xf32, "shared_dram">
  // CHECK-NEXT: %v = lpu_host.view %b : memref<24xf32, "shared_dram"> -> memref<2x3xf32, #lpu.layout<[2, 3], [12, 4], 1>, "shared_dram">
  %v = lpu_host.view %b : memref<24xf32, "shared_dram"> -> memref<2x3xf32, #lpu.layout<[2, 3], [12, 4], 1>, "shared_dram">
  // CHECK-NEXT: lpu_host.launch @k(%a, %b) indices <[s0]> : memref<4x?xf32, #lpu.layout<[4, s0], [s0, 1], 0>, "shared_dram">, memref<24xf32, "shared_dram">
  lpu_host.launch @k(%a, %b) indices <[s0]> : memref<4x?xf32, #lpu.layout<[4, s0], [s0, 1], 0>, "shared_dram">, memref<24xf32, "shared_dram">
  // CHECK-NEXT: func.return
  func.return
// CHECK-NEXT: }
}
