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

// A fold of it counts every repetition.
// CHECK:      lpu_kernel.kernel @repeated_0(%{{.*}}: memref<10xi64, "shared_dram">, %{{.*}}: memref<i64, "shared_dram">)
// CHECK:        %[[ROW:.*]] = lpu_kernel.load %{{.*}}[0] [10]
// CHECK:        %[[ALL:.*]] = lpu_kernel.map [8, 10] {{.*}}ins(%[[ROW]] as [1] : {{.*}}) -> (!lpu_kernel.tile<8x10xi64>)
// CHECK:        lpu_kernel.fold add %[[ALL]] [0, 1]
func.func @repeated(%x: memref<8x10xi64, #lpu.layout<[8, 10], [0, 1], 0>, "shared_dram">, %y: memref<i64, "shared_dram">) {
  lpu_loop.nest [] outs(%y : memref<i64, "shared_dram">) {
    %0 = lpu_loop.fold "add" [r0 = 8, r1 = 10] : i64 {
      %1 = lpu_loop.load %x[r0, r1] : memref<8x10xi64, #lpu.layout<[8, 10], [0, 1], 0>, "shared_dram">
      lpu_loop.yield %1 : i64
    }
    lpu_loop.store "replace" %0, %y[] : i64, memref<i64, "shared_dram">
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

// A nest over nothing needs no kernel.
// CHECK-NOT:   @nothing_0
// CHECK-LABEL: func.func @nothing(
// CHECK-NEXT:    func.return
func.func @nothing(%x: memref<4xf32, "shared_dram">, %y: memref<0xf32, "shared_dram">) {
  lpu_loop.nest [d0 = 0] outs(%y : memref<0xf32, "shared_dram">) {
    %0 = lpu_loop.load %x[d0 + 7] : memref<4xf32, "shared_dram">
    lpu_loop.store "replace" %0, %y[d0] : f32, memref<0xf32, "shared_dram">
  }
  func.return
}

// -----

// A check of a nest that may have no points holds there.
// CHECK:      lpu_kernel.kernel @checked_0(
// CHECK:        lpu_kernel.map [] ins
// CHECK:          arith.cmpi eq, %{{.*}}, %{{.*}} : i64
// CHECK:          arith.ori
// CHECK:        lpu_kernel.check
func.func @checked(%x: memref<i64, "shared_dram">, %y: memref<?xi64, #lpu.layout<[s0], [1], 0>, "shared_dram">)
    attributes {lpu.symbols = [#lpu.symbol<"s0", 0, 9, 1>]} {
  lpu_loop.nest [d0 = s0] outs(%y : memref<?xi64, #lpu.layout<[s0], [1], 0>, "shared_dram">) {
    %0 = lpu_loop.load %x[] : memref<i64, "shared_dram">
    %zero = arith.constant 0 : i64
    %1 = arith.cmpi ne, %0, %zero : i64
    lpu_loop.check %1, "RuntimeError", "ZeroDivisionError"
    lpu_loop.store "replace" %0, %y[d0] : i64, memref<?xi64, #lpu.layout<[s0], [1], 0>, "shared_dram">
  }
  func.return
}

// -----

// Nor does one that reads a buffer without elements, whatever its strides.
// CHECK-NOT:   @empty_0
// CHECK-LABEL: func.func @empty(
// CHECK-NEXT:    func.return
func.func @empty(%x: memref<2x0xf32, #lpu.layout<[2, 0], [1, 1], 0>, "shared_dram">, %y: memref<0xf32, "shared_dram">) {
  lpu_loop.nest [d0 = 0] outs(%y : memref<0xf32, "shared_dram">) {
    %0 = lpu_loop.load %x[d0, -2 * d0 + 5] : memref<2x0xf32, #lpu.layout<[2, 0], [1, 1], 0>, "shared_dram">
    lpu_loop.store "replace" %0, %y[d0] : f32, memref<0xf32, "shared_dram">
  }
  func.return
}
