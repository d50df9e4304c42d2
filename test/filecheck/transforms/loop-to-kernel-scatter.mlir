// RUN: lpu-opt -p "loop-to-kernel{target=tiny}" --split-input-file --verify-diagnostics %s | filecheck %s

// Cores divide the dim that is in the address, not the one of the index.
// CHECK:      lpu_kernel.kernel @add_0({{.*}}) access [ro, ro, rw] cores 4 {
// CHECK:        %[[O:.*]] = lpu_kernel.apply <4 * d0>
// CHECK-NEXT:   %[[I:.*]] = lpu_kernel.load %{{.*}}[0] [500]
// CHECK-NEXT:   %[[T:.*]] = lpu_kernel.load %{{.*}}[0, %[[O]]] [500, 4]
// CHECK-NEXT:   lpu_kernel.store add %[[T]], %{{.*}}[0, %[[O]]] index 0 by %[[I]] : !lpu_kernel.tile<500x4xf32>, memref<7x16xf32, "shared_dram">, !lpu_kernel.tile<500xi64>
func.func @add(%i: memref<500xi64, "shared_dram">, %x: memref<500x16xf32, "shared_dram">, %y: memref<7x16xf32, "shared_dram">) {
  lpu_loop.nest [d0 = 500, d1 = 16] outs(%y : memref<7x16xf32, "shared_dram">) {
    %0 = lpu_loop.load %i[d0] : memref<500xi64, "shared_dram">
    %1 = lpu_loop.load %x[d0, d1] : memref<500x16xf32, "shared_dram">
    lpu_loop.store "add" %1, %y[_0, d1](%0) : f32, memref<7x16xf32, "shared_dram">
  }
  func.return
}

// -----

// Index dims are walked in order: outside the one that is in parts, one position at a time.
// CHECK:      lpu_kernel.kernel @ordered_0({{.*}}) access [ro, wo] cores 1 {
// CHECK:        lpu_kernel.for sequential %[[A:.*]] = 0 to 3 step 1 {
// CHECK-NEXT:     lpu_kernel.for sequential %[[B:.*]] = 0 to 3000 step 375 {
// CHECK:            lpu_kernel.load %{{.*}}[%[[A]], %[[B]]] [1, 375]
// CHECK:            lpu_kernel.store %{{.*}}, %{{.*}}[0] index 0 by
func.func @ordered(%i: memref<3x3000xi64, "shared_dram">, %y: memref<7xi64, "shared_dram">) {
  lpu_loop.nest [d0 = 3, d1 = 3000] outs(%y : memref<7xi64, "shared_dram">) {
    %0 = lpu_loop.load %i[d0, d1] : memref<3x3000xi64, "shared_dram">
    %1 = lpu_loop.index 3000 * d0 + d1 : i64
    lpu_loop.store "replace" %1, %y[_0](%0) : i64, memref<7xi64, "shared_dram">
  }
  func.return
}

// -----

// A dim that is nowhere in the address has a place in the index all the same.
// CHECK-LABEL: lpu_kernel.kernel @everywhere_0
// CHECK:         %[[I:.*]] = lpu_kernel.map [40] -> (!lpu_kernel.tile<40xi64>) {
// CHECK:         lpu_kernel.store add %{{.*}}, %{{.*}}[0] index 0 by %[[I]] : !lpu_kernel.tile<40xf32>, memref<1xf32, "shared_dram">, !lpu_kernel.tile<40xi64>
func.func @everywhere(%x: memref<40xf32, "shared_dram">, %y: memref<1xf32, "shared_dram">) {
  lpu_loop.nest [d0 = 40] outs(%y : memref<1xf32, "shared_dram">) {
    %0 = lpu_loop.load %x[d0] : memref<40xf32, "shared_dram">
    lpu_loop.store "add" %0, %y[0] : f32, memref<1xf32, "shared_dram">
  }
  func.return
}

// -----

// A position that is arithmetic and in bounds is part of the address.
// CHECK:      lpu_kernel.kernel @strided_0({{.*}} %[[Y:.*]]: memref<10xf32, strided<[3]>, "shared_dram">) access [ro, wo] cores 4 {
// CHECK-NOT:    index 0 by
// CHECK:        lpu_kernel.store
// CHECK:      lpu_host.view %{{.*}} -> memref<10xf32, #lpu.layout<[10], [3], 2>, "shared_dram">
func.func @strided(%x: memref<10xf32, "shared_dram">, %y: memref<40xf32, "shared_dram">) {
  lpu_loop.nest [d0 = 10] outs(%y : memref<40xf32, "shared_dram">) {
    %0 = lpu_loop.load %x[d0] : memref<10xf32, "shared_dram">
    %1 = lpu_loop.index 3 * d0 : i64
    %2 = arith.constant 2 : i64
    %3 = arith.addi %1, %2 : i64
    lpu_loop.store "replace" %0, %y[_0](%3) : f32, memref<40xf32, "shared_dram">
  }
  func.return
}

// -----

// One that may be out of bounds is not.
// CHECK-LABEL: lpu_kernel.kernel @outside_0
// CHECK:         lpu_kernel.store %{{.*}}, %{{.*}}[0] index 0 by
func.func @outside(%x: memref<10xf32, "shared_dram">, %y: memref<9xf32, "shared_dram">) {
  lpu_loop.nest [d0 = 10] outs(%y : memref<9xf32, "shared_dram">) {
    %0 = lpu_loop.load %x[d0] : memref<10xf32, "shared_dram">
    %1 = lpu_loop.index d0 : i64
    lpu_loop.store "replace" %0, %y[_0](%1) : f32, memref<9xf32, "shared_dram">
  }
  func.return
}

// -----

// CHECK: a scan along ('d0',) of what is scattered by ('d0', 'd1')
func.func @scan(%i: memref<3x5xi64, "shared_dram">, %y: memref<7xi64, "shared_dram">) {
  lpu_loop.nest [d0 = 3, d1 = 5] outs(%y : memref<7xi64, "shared_dram">) {
    %0 = lpu_loop.load %i[d0, d1] : memref<3x5xi64, "shared_dram">
    %1 = lpu_loop.scan "add" [r0 = 3] along d0 : i64 {
      %2 = lpu_loop.load %i[r0, d1] : memref<3x5xi64, "shared_dram">
      lpu_loop.yield %2 : i64
    }
    lpu_loop.store "replace" %1, %y[_0](%0) : i64, memref<7xi64, "shared_dram">
  }
  func.return
}

// -----

// Pieces are stored one after the other: of the outermost index dim that is its order.
// CHECK-LABEL: lpu_kernel.kernel @pieces_0
// CHECK:         lpu_kernel.load %{{.*}}[0] [4]
// CHECK:         lpu_kernel.store add
// CHECK:         lpu_kernel.load %{{.*}}[0] [6]
// CHECK:         lpu_kernel.store add
func.func @pieces(%i: memref<10xi64, "shared_dram">, %a: memref<4xi64, "shared_dram">, %b: memref<6xi64, "shared_dram">, %y: memref<7xi64, "shared_dram">) {
  lpu_loop.nest [d0 = 10] outs(%y : memref<7xi64, "shared_dram">) {
    %0 = lpu_loop.load %i[d0] : memref<10xi64, "shared_dram">
    %1 = lpu_loop.pieces d0 at [4] : i64 {
      %2 = lpu_loop.load %a[d0] : memref<4xi64, "shared_dram">
      lpu_loop.yield %2 : i64
    } {
      %3 = lpu_loop.load %b[d0 - 4] : memref<6xi64, "shared_dram">
      lpu_loop.yield %3 : i64
    }
    lpu_loop.store "add" %1, %y[_0](%0) : i64, memref<7xi64, "shared_dram">
  }
  func.return
}

// -----

// Of an inner one it is not.
// CHECK: pieces along ['d1'], which is walked in order
func.func @inner(%i: memref<3x10xi64, "shared_dram">, %a: memref<3x4xi64, "shared_dram">, %b: memref<3x6xi64, "shared_dram">, %y: memref<7xi64, "shared_dram">) {
  lpu_loop.nest [d0 = 3, d1 = 10] outs(%y : memref<7xi64, "shared_dram">) {
    %0 = lpu_loop.load %i[d0, d1] : memref<3x10xi64, "shared_dram">
    %1 = lpu_loop.pieces d1 at [4] : i64 {
      %2 = lpu_loop.load %a[d0, d1] : memref<3x4xi64, "shared_dram">
      lpu_loop.yield %2 : i64
    } {
      %3 = lpu_loop.load %b[d0, d1 - 4] : memref<3x6xi64, "shared_dram">
      lpu_loop.yield %3 : i64
    }
    lpu_loop.store "replace" %1, %y[_0](%0) : i64, memref<7xi64, "shared_dram">
  }
  func.return
}
