// RUN: lpu-opt -p "loop-to-kernel{target=tiny}" --split-input-file --verify-diagnostics %s | filecheck %s

// A view has no negative stride: what goes backwards is addressed by an index tile.
// CHECK:      lpu_kernel.kernel @flip_0(%{{.*}}: memref<80xf32, "shared_dram">, %{{.*}}: memref<8x10xf32, "shared_dram">)
// CHECK:        lpu_kernel.map {{.*}} -> (!lpu_kernel.tile<2x10xi64>)
// CHECK:        lpu_kernel.load %{{.*}}[0] [1] index 0 by %{{.*}} : memref<80xf32, "shared_dram">, !lpu_kernel.tile<2x10xi64>
func.func @flip(%x: memref<8x10xf32, "shared_dram">, %y: memref<8x10xf32, "shared_dram">) {
  lpu_loop.nest [d0 = 8, d1 = 10] outs(%y : memref<8x10xf32, "shared_dram">) {
    %0 = lpu_loop.load %x[-d0 + 7, d1] : memref<8x10xf32, "shared_dram">
    lpu_loop.store "replace" %0, %y[d0, d1] : f32, memref<8x10xf32, "shared_dram">
  }
  func.return
}

// -----

// Neither has it a stride that may be negative because a symbol may.
// CHECK-LABEL: lpu_kernel.kernel @step_0
// CHECK:         index 0 by
func.func @step(%x: memref<80xf32, "shared_dram">, %y: memref<8xf32, "shared_dram">)
    attributes {lpu.symbols = [#lpu.symbol<"s0", -9, 9, 1>]} {
  lpu_loop.nest [d0 = 8] outs(%y : memref<8xf32, "shared_dram">) {
    %0 = lpu_loop.load %x[s0 * d0 + 40] : memref<80xf32, "shared_dram">
    lpu_loop.store "replace" %0, %y[d0] : f32, memref<8xf32, "shared_dram">
  }
  func.return
}

// -----

// Reading an expanded buffer is a broadcast.
// CHECK:      lpu_kernel.kernel @broadcast_0(%{{.*}}: memref<10xf32, "shared_dram">, %{{.*}}: memref<8x10xf32, "shared_dram">)
func.func @broadcast(%x: memref<8x10xf32, #lpu.layout<[8, 10], [0, 1], 0>, "shared_dram">, %y: memref<8x10xf32, "shared_dram">) {
  lpu_loop.nest [d0 = 8, d1 = 10] outs(%y : memref<8x10xf32, "shared_dram">) {
    %0 = lpu_loop.load %x[d0, d1] : memref<8x10xf32, #lpu.layout<[8, 10], [0, 1], 0>, "shared_dram">
    lpu_loop.store "replace" %0, %y[d0, d1] : f32, memref<8x10xf32, "shared_dram">
  }
  func.return
}

// -----

// CHECK: a store to the expanded buffer memref<8x10xf32, #lpu.layout<[8, 10], [0, 1], 0>, "shared_dram">
func.func @expanded(%x: memref<8x10xf32, "shared_dram">, %y: memref<8x10xf32, #lpu.layout<[8, 10], [0, 1], 0>, "shared_dram">) {
  lpu_loop.nest [d0 = 8, d1 = 10] outs(%y : memref<8x10xf32, #lpu.layout<[8, 10], [0, 1], 0>, "shared_dram">) {
    %0 = lpu_loop.load %x[d0, d1] : memref<8x10xf32, "shared_dram">
    lpu_loop.store "replace" %0, %y[d0, d1] : f32, memref<8x10xf32, #lpu.layout<[8, 10], [0, 1], 0>, "shared_dram">
  }
  func.return
}

// -----

// CHECK: elements 75 to 82 are accessed of a buffer with elements 0 to 79: memref<80xf32, "shared_dram">
func.func @behind(%x: memref<80xf32, "shared_dram">, %y: memref<8xf32, "shared_dram">) {
  lpu_loop.nest [d0 = 8] outs(%y : memref<8xf32, "shared_dram">) {
    %0 = lpu_loop.load %x[d0 + 75] : memref<80xf32, "shared_dram">
    lpu_loop.store "replace" %0, %y[d0] : f32, memref<8xf32, "shared_dram">
  }
  func.return
}

// -----

// CHECK: elements -1 to s0 - 2 are accessed of a buffer with elements 0 to s0 - 1
func.func @before(%x: memref<?xf32, #lpu.layout<[s0], [1], 0>, "shared_dram">, %y: memref<?xf32, #lpu.layout<[s0], [1], 0>, "shared_dram">)
    attributes {lpu.symbols = [#lpu.symbol<"s0", 2, -1, 40>]} {
  lpu_loop.nest [d0 = s0] outs(%y : memref<?xf32, #lpu.layout<[s0], [1], 0>, "shared_dram">) {
    %0 = lpu_loop.load %x[d0 - 1] : memref<?xf32, #lpu.layout<[s0], [1], 0>, "shared_dram">
    lpu_loop.store "replace" %0, %y[d0] : f32, memref<?xf32, #lpu.layout<[s0], [1], 0>, "shared_dram">
  }
  func.return
}

// -----

// A nest over nothing accesses nothing.
// CHECK-LABEL: lpu_kernel.kernel @nothing_0
func.func @nothing(%x: memref<4xf32, "shared_dram">, %y: memref<0xf32, "shared_dram">) {
  lpu_loop.nest [d0 = 0] outs(%y : memref<0xf32, "shared_dram">) {
    %0 = lpu_loop.load %x[d0 + 7] : memref<4xf32, "shared_dram">
    lpu_loop.store "replace" %0, %y[d0] : f32, memref<0xf32, "shared_dram">
  }
  func.return
}
