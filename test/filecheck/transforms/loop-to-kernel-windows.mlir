// RUN: lpu-opt -p "loop-to-kernel{target=tiny}" --split-input-file %s | filecheck %s

// Dims that step among each other's positions share an axis: each element of it is moved once.
// CHECK:      lpu_kernel.kernel @overlapping_0(%{{.*}}: memref<3x9xf32, "shared_dram">, %{{.*}}: memref<3x4xf32, "shared_dram">)
// CHECK:        %[[T:\d+]] = lpu_kernel.load %{{.*}}[%{{.*}}, 0] [1, 9]
// CHECK-NEXT:   %[[W:\d+]] = lpu_kernel.windows %[[T]] along [0, 1, 1] steps [1, 2, 1] [1, 4, 3] : !lpu_kernel.tile<1x9xf32> -> !lpu_kernel.tile<1x4x3xf32>
// CHECK-NEXT:   lpu_kernel.fold max %[[W]] [2]
func.func @overlapping(%x: memref<3x9xf32, "shared_dram">, %y: memref<3x4xf32, "shared_dram">) {
  lpu_loop.nest [d0 = 3, d1 = 4] outs(%y : memref<3x4xf32, "shared_dram">) {
    %0 = lpu_loop.fold "max" [r0 = 3] : f32 {
      %1 = lpu_loop.load %x[d0, 2 * d1 + r0] : memref<3x9xf32, "shared_dram">
      lpu_loop.yield %1 : f32
    }
    lpu_loop.store "replace" %0, %y[d0, d1] : f32, memref<3x4xf32, "shared_dram">
  }
  func.return
}

// -----

// Side by side they are two axes.
// CHECK:      lpu_kernel.kernel @beside_0(%{{.*}}: memref<3x4x2xf32, "shared_dram">, %{{.*}}: memref<3x4xf32, "shared_dram">)
// CHECK-NOT:    lpu_kernel.windows
func.func @beside(%x: memref<3x8xf32, "shared_dram">, %y: memref<3x4xf32, "shared_dram">) {
  lpu_loop.nest [d0 = 3, d1 = 4] outs(%y : memref<3x4xf32, "shared_dram">) {
    %0 = lpu_loop.fold "max" [r0 = 2] : f32 {
      %1 = lpu_loop.load %x[d0, 2 * d1 + r0] : memref<3x8xf32, "shared_dram">
      lpu_loop.yield %1 : f32
    }
    lpu_loop.store "replace" %0, %y[d0, d1] : f32, memref<3x4xf32, "shared_dram">
  }
  func.return
}

// -----

// Elements that no window has are not moved: steps of 2 and 4 look at every other one.
// CHECK:      lpu_kernel.kernel @dilated_0(%{{.*}}: memref<3x8xf32, strided<[17, 2]>, "shared_dram">, %{{.*}}: memref<3x4xf32, "shared_dram">)
// CHECK:        lpu_kernel.windows %{{.*}} along [0, 1, 1] steps [1, 1, 2] [1, 4, 3]
func.func @dilated(%x: memref<3x17xf32, "shared_dram">, %y: memref<3x4xf32, "shared_dram">) {
  lpu_loop.nest [d0 = 3, d1 = 4] outs(%y : memref<3x4xf32, "shared_dram">) {
    %0 = lpu_loop.fold "max" [r0 = 3] : f32 {
      %1 = lpu_loop.load %x[d0, 2 * d1 + 4 * r0] : memref<3x17xf32, "shared_dram">
      lpu_loop.yield %1 : f32
    }
    lpu_loop.store "replace" %0, %y[d0, d1] : f32, memref<3x4xf32, "shared_dram">
  }
  func.return
}

// -----

// The cores share the channels, although there are more rows: so none reads rows of another.
// CHECK:      lpu_kernel.kernel @convolution_0(
// CHECK-SAME:   cores 3
// CHECK:        lpu_kernel.phase cores(%[[C:\d+]]) {
// CHECK:          lpu_kernel.load %{{.*}}[0, 0, 0] [2, 8, 6] : memref<2x8x6xf32, "shared_dram">
// CHECK:          lpu_kernel.windows %{{.*}} along [0, 1, 1, 2, 2] steps [1, 1, 1, 1, 1] [2, 6, 3, 4, 3]
// CHECK:          lpu_kernel.load %{{.*}}[%[[C]], 0, 0, 0] [1, 2, 3, 3]
// CHECK:          lpu_kernel.contract
func.func @convolution(%x: memref<2x8x6xf32, "shared_dram">, %w: memref<3x2x3x3xf32, "shared_dram">, %y: memref<3x6x4xf32, "shared_dram">) {
  lpu_loop.nest [d0 = 3, d1 = 6, d2 = 4] outs(%y : memref<3x6x4xf32, "shared_dram">) {
    %0 = lpu_loop.fold "add" [r0 = 2, r1 = 3, r2 = 3] : f32 {
      %1 = lpu_loop.load %x[r0, d1 + r1, d2 + r2] : memref<2x8x6xf32, "shared_dram">
      %2 = lpu_loop.load %w[d0, r0, r1, r2] : memref<3x2x3x3xf32, "shared_dram">
      %3 = arith.mulf %1, %2 : f32
      lpu_loop.yield %3 : f32
    }
    lpu_loop.store "replace" %0, %y[d0, d1, d2] : f32, memref<3x6x4xf32, "shared_dram">
  }
  func.return
}
