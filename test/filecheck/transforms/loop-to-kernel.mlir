// RUN: lpu-opt -p "graph-to-loop,fuse,bufferize,loop-to-kernel{target=tiny}" %s | filecheck %s

// Each of the 4 cores takes an equal part: 16 rows.
// CHECK-LABEL: lpu_kernel.kernel @shared_0({{.*}}) access [ro, wo] cores 4 {
// CHECK:        lpu_kernel.phase cores(%[[CORE:.*]]) {
// CHECK-NEXT:    %[[ROW:.*]] = lpu_kernel.apply <16 * d0>(%[[CORE]])
// CHECK-NEXT:    %[[X:.*]] = lpu_kernel.load %{{.*}}[%[[ROW]], 0] [16, 10] : {{.*}} -> !lpu_kernel.tile<16x10xf32>
// CHECK-NEXT:    %[[Y:.*]] = lpu_kernel.map [16, 10] at [%[[ROW]], 0] ins(%[[X]] as [0, 1] : {{.*}}) -> (!lpu_kernel.tile<16x10xf32>) {
// CHECK:            math.exp
// CHECK:          lpu_kernel.store %[[Y]], %{{.*}}[%[[ROW]], 0]
// CHECK-LABEL: func.func @shared(
// CHECK-NEXT:    lpu_host.launch @shared_0(%x, %{{.*}}) indices <[]>
func.func @shared(%x: tensor<64x10xf32>) -> tensor<64x10xf32> {
  %0 = lpu_graph.pointwise "exp"(%x) : tensor<64x10xf32> -> tensor<64x10xf32>
  func.return %0 : tensor<64x10xf32>
}

// 10 among 4: three take 3, the last takes 1.
// CHECK-LABEL: lpu_kernel.kernel @uneven_0({{.*}}) access [ro, wo] cores 4 {
// CHECK:          %[[START:.*]] = lpu_kernel.apply <3 * d0>
// CHECK:          %[[COUNT:.*]] = lpu_kernel.apply <{{.*}}min(-3 * d0 + 10, 3){{.*}}>
// CHECK:          lpu_kernel.load %{{.*}}[%[[START]]] [%[[COUNT]]] : {{.*}} -> !lpu_kernel.tile<3xf32>
// CHECK:          lpu_kernel.map [%[[COUNT]]] at [%[[START]]]
func.func @uneven(%x: tensor<10xf32>) -> tensor<10xf32> {
  %0 = lpu_graph.pointwise "exp"(%x) : tensor<10xf32> -> tensor<10xf32>
  func.return %0 : tensor<10xf32>
}

// A core without work is not asked for.
// CHECK-LABEL: lpu_kernel.kernel @few_0({{.*}}) access [ro, wo] cores 3 {
func.func @few(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = lpu_graph.pointwise "exp"(%x) : tensor<3xf32> -> tensor<3xf32>
  func.return %0 : tensor<3xf32>
}

// CHECK-LABEL: lpu_kernel.kernel @nothing_to_share_0({{.*}}) access [ro, wo] cores 1 {
// CHECK:          %[[X:.*]] = lpu_kernel.load %{{.*}}[0] [10]
// CHECK:          lpu_kernel.fold add %[[X]] [0] : {{.*}} -> !lpu_kernel.tile<f32>
func.func @nothing_to_share(%x: tensor<10xf32>) -> tensor<f32> {
  %0 = lpu_graph.reduce "add" %x dims <[0]> : tensor<10xf32> -> tensor<f32>
  func.return %0 : tensor<f32>
}

// A row does not fit the tile of 4 KB: it is walked, the last part being shorter.
// CHECK-LABEL: lpu_kernel.kernel @tiles_0(
// CHECK:          lpu_kernel.for parallel %[[I:.*]] = 0 to 3001 step 751 {
// CHECK:            %[[SIZE:.*]] = lpu_kernel.apply <min(-d0 + 3001, 751)>(%[[I]])
// CHECK:            lpu_kernel.load %{{.*}}[%{{.*}}, %[[I]]] [1, %[[SIZE]]] : {{.*}} -> !lpu_kernel.tile<1x751xf32>
func.func @tiles(%x: tensor<4x3001xf32>) -> tensor<4x3001xf32> {
  %0 = lpu_graph.pointwise "exp"(%x) : tensor<4x3001xf32> -> tensor<4x3001xf32>
  func.return %0 : tensor<4x3001xf32>
}

// Nothing is left over, so all sizes are numbers.
// CHECK-LABEL: lpu_kernel.kernel @even_tiles_0(
// CHECK-NOT:     min(
// CHECK:          lpu_kernel.for parallel %[[I:.*]] = 0 to 4096 step 1024 {
// CHECK:            lpu_kernel.load %{{.*}}[%{{.*}}, %[[I]]] [1, 1024]
// CHECK-NOT:     min(
// CHECK-LABEL: func.func @even_tiles
func.func @even_tiles(%x: tensor<4x4096xf32>) -> tensor<4x4096xf32> {
  %0 = lpu_graph.pointwise "exp"(%x) : tensor<4x4096xf32> -> tensor<4x4096xf32>
  func.return %0 : tensor<4x4096xf32>
}

// The extent is an argument of the kernel; a tile has a fixed capacity all the same.
// CHECK-LABEL: lpu_kernel.kernel @symbolic_0(%{{.*}}: memref<?x6xf32, "shared_dram">, %{{.*}}: memref<?x6xf32, "shared_dram">, %s0: index) access [ro, wo] cores 4 {
// CHECK:          %[[START:.*]] = lpu_kernel.apply <((d1 + 3) floordiv 4) * d0>(%{{.*}}, %s0)
// CHECK:          %[[COUNT:.*]] = lpu_kernel.apply <{{.*}}>(%{{.*}}, %s0)
// CHECK:          lpu_kernel.for parallel %[[I:.*]] = 0 to %[[COUNT]] step 64 {
// CHECK:            %[[SIZE:.*]] = lpu_kernel.apply <min(-d0 + d1, 64)>(%[[I]], %[[COUNT]])
// CHECK:            lpu_kernel.load %{{.*}}[%{{.*}}, 0] [%[[SIZE]], 6] : {{.*}} -> !lpu_kernel.tile<64x6xf32>
// CHECK-LABEL: func.func @symbolic(
// CHECK-NEXT:    lpu_host.launch @symbolic_0(%x, %{{.*}}) indices <[s0]>
func.func @symbolic(%x: tensor<?x6xf32, #lpu.shape<[s0, 6]>>) -> tensor<?x6xf32, #lpu.shape<[s0, 6]>> attributes {lpu.symbols = [#lpu.symbol<"s0", 1, -1, 8>]} {
  %0 = lpu_graph.pointwise "exp"(%x) : tensor<?x6xf32, #lpu.shape<[s0, 6]>> -> tensor<?x6xf32, #lpu.shape<[s0, 6]>>
  func.return %0 : tensor<?x6xf32, #lpu.shape<[s0, 6]>>
}

// The operand does not fit SRAM: what has been combined so far is carried.
// CHECK-LABEL: lpu_kernel.kernel @fold_in_chunks_0(
// CHECK:          %[[NONE:.*]] = lpu_kernel.fill 0xff800000 : f32 [1]
// CHECK:          %[[ALL:.*]] = lpu_kernel.for reduction %[[I:.*]] = 0 to 30000 step 7500 iter_args(%[[ACC:.*]] = %[[NONE]])
// CHECK:            %[[X:.*]] = lpu_kernel.load %{{.*}}[%{{.*}}, %[[I]]] [1, 7500]
// CHECK:            %[[NEXT:.*]] = lpu_kernel.fold max %[[X]] [1] acc(%[[ACC]] : {{.*}})
// CHECK:            lpu_kernel.yield %[[NEXT]]
// CHECK:          lpu_kernel.store %[[ALL]]
func.func @fold_in_chunks(%x: tensor<4x30000xf32>) -> tensor<4xf32> {
  %0 = lpu_graph.reduce "max" %x dims <[1]> : tensor<4x30000xf32> -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}

// Both operands as they are in memory, accumulated in f32, rounded once.
// CHECK-LABEL: lpu_kernel.kernel @contraction_0(
// CHECK:          %[[X:.*]] = lpu_kernel.load %{{.*}}[0, 0] [3, 8] : {{.*}} -> !lpu_kernel.tile<3x8xbf16>
// CHECK:          %[[W:.*]] = lpu_kernel.load %{{.*}} [2, 8] : {{.*}} -> !lpu_kernel.tile<2x8xbf16>
// CHECK:          lpu_kernel.contract %[[X]] as [0, 2], %[[W]] as [1, 2] : {{.*}} -> !lpu_kernel.tile<3x2xf32>
// CHECK:          arith.truncf
func.func @contraction(%x: tensor<3x8xbf16>, %w: tensor<8x8xbf16>) -> tensor<3x8xbf16> {
  %0 = lpu_graph.matmul %x, %w transpose [false, true] : tensor<3x8xbf16>, tensor<8x8xbf16> -> tensor<3x8xbf16>
  func.return %0 : tensor<3x8xbf16>
}

// Both factors vary over the same dims: no matrix product.
// CHECK-LABEL: lpu_kernel.kernel @sum_of_squares_0(
// CHECK-NOT:     lpu_kernel.contract
// CHECK:          arith.mulf
// CHECK:          lpu_kernel.fold add
// CHECK-NOT:     lpu_kernel.contract
// CHECK-LABEL: func.func @sum_of_squares
func.func @sum_of_squares(%x: tensor<4x8xf32>) -> tensor<4xf32> {
  %0 = lpu_graph.pointwise "mul"(%x, %x) : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
  %1 = lpu_graph.reduce "add" %0 dims <[1]> : tensor<4x8xf32> -> tensor<4xf32>
  func.return %1 : tensor<4xf32>
}

// The rows are those that the indices say, which have been checked.
// CHECK-LABEL: lpu_kernel.kernel @gather_0(
// CHECK:          %[[I:.*]] = lpu_kernel.load %{{.*}} -> !lpu_kernel.tile<1xi64>
// CHECK:          %[[OK:.*]] = lpu_kernel.map {{.*}} ins(%[[I]] as [0] : {{.*}}) -> (!lpu_kernel.tile<1xi1>)
// CHECK:          lpu_kernel.check %[[OK]], "IndexError", "index out of range for dimension 0 with size 9"
// CHECK:          lpu_kernel.load %{{.*}}[0, 0] [1, 8] index 0 by %[[I]]
func.func @gather(%t: tensor<9x8xf32>, %i: tensor<4xi64>) -> tensor<4x8xf32> {
  %0 = lpu_graph.gather %t[%i] dims <[0]> at 0 : tensor<9x8xf32>[tensor<4xi64>] -> tensor<4x8xf32>
  func.return %0 : tensor<4x8xf32>
}

// Only the rows that the indices say are written; no two cores write the same column.
// CHECK-LABEL: lpu_kernel.kernel @scatter_0({{.*}}) access [ro, ro, wo] cores 4 {
// CHECK:          %[[COLUMN:.*]] = lpu_kernel.apply <2 * d0>
// CHECK:          %[[I:.*]] = lpu_kernel.load %{{.*}}[0] [4] : {{.*}} -> !lpu_kernel.tile<4xi64>
// CHECK:          lpu_kernel.check
// CHECK:          %[[U:.*]] = lpu_kernel.load %{{.*}}[0, %[[COLUMN]]] [4, 2]
// CHECK:          lpu_kernel.store %[[U]], %{{.*}}[0, %[[COLUMN]]] index 0 by %[[I]]
// CHECK-LABEL: func.func @scatter(
// CHECK-NEXT:    lpu_host.launch @scatter_0(%i, %u, %t)
func.func @scatter(%u: tensor<4x8xf32>, %i: tensor<4xi64>, %t: tensor<9x8xf32>) {
  %0 = lpu_graph.scatter "replace" %u, %t[%i] dims <[0]> at 0 : tensor<4x8xf32>, tensor<9x8xf32>[tensor<4xi64>] -> tensor<9x8xf32>
  lpu_graph.write_back %0, %t : tensor<9x8xf32>, tensor<9x8xf32>
  func.return
}

// One part after the other, each into its view of the result, in one kernel.
// CHECK-LABEL: lpu_kernel.kernel @concat_0({{.*}}) access [ro, wo, ro, wo] cores 4 {
// CHECK:          %[[X:.*]] = lpu_kernel.load %{{.*}} [1, 6]
// CHECK:          lpu_kernel.store %[[X]], %{{.*}} : !lpu_kernel.tile<1x6xf32>, memref<4x6xf32, strided<[8, 1]>, "shared_dram">
// CHECK:          %[[Y:.*]] = lpu_kernel.load %{{.*}} [1, 2]
// CHECK:          lpu_kernel.store %[[Y]], %{{.*}} : !lpu_kernel.tile<1x2xf32>, memref<4x2xf32, strided<[8, 1]>, "shared_dram">
// CHECK-LABEL: func.func @concat(
// CHECK:          lpu_host.view %{{.*}} -> memref<4x6xf32, #lpu.layout<[4, 6], [8, 1], 0>, "shared_dram">
// CHECK:          lpu_host.view %{{.*}} -> memref<4x2xf32, #lpu.layout<[4, 2], [8, 1], 6>, "shared_dram">
func.func @concat(%x: tensor<4x6xf32>, %y: tensor<4x2xf32>) -> tensor<4x8xf32> {
  %0 = lpu_graph.concat %x, %y dim 1 : tensor<4x6xf32>, tensor<4x2xf32> -> tensor<4x8xf32>
  func.return %0 : tensor<4x8xf32>
}

// Before, within and after the operand, which alone is read.
// CHECK-LABEL: lpu_kernel.kernel @pad_0({{.*}}) access [wo, ro, wo, wo] cores 4 {
// CHECK:          lpu_kernel.map [1, 1]
// CHECK:          lpu_kernel.load %{{.*}} [1, 6]
// CHECK:          lpu_kernel.map [1, 2]
// CHECK-NOT:     lpu_kernel.load
// CHECK-LABEL: func.func @pad(
func.func @pad(%x: tensor<4x6xf32>) -> tensor<4x9xf32> {
  %0 = lpu_graph.pad %x low <[0, 1]> value 7.0 : f32 : tensor<4x6xf32> -> tensor<4x9xf32>
  func.return %0 : tensor<4x9xf32>
}

// Six heads are two groups of three: the heads of a group read the same keys.
// CHECK-LABEL: lpu_kernel.kernel @grouped_heads_0(%{{.*}}: memref<2x5x8xf32, "shared_dram">, %{{.*}}: memref<2x3x5x8xf32, "shared_dram">)
// CHECK-NOT:     index 0 by
// CHECK:          %[[K:.*]] = lpu_kernel.load %{{.*}} -> !lpu_kernel.tile<2x2x8xf32>
// CHECK:          lpu_kernel.map [2, 3, %{{.*}}, 8] at {{.*}} ins(%[[K]] as [0, 2, 3] : {{.*}})
// CHECK-NOT:     index 0 by
// CHECK-LABEL: func.func @grouped_heads(
func.func @grouped_heads(%k: tensor<2x5x8xf32>) -> tensor<6x5x8xf32> {
  %0 = lpu_graph.reshape %k : tensor<2x5x8xf32> -> tensor<2x1x5x8xf32>
  %1 = lpu_graph.broadcast %0 : tensor<2x1x5x8xf32> -> tensor<2x3x5x8xf32>
  %2 = lpu_graph.reshape %1 : tensor<2x3x5x8xf32> -> tensor<6x5x8xf32>
  %3 = lpu_graph.pointwise "neg"(%2) : tensor<6x5x8xf32> -> tensor<6x5x8xf32>
  func.return %3 : tensor<6x5x8xf32>
}

// Positions count from the start of the whole row.
// CHECK-LABEL: lpu_kernel.kernel @position_0(
// CHECK:          %[[V:.*]], %[[P:.*]] = lpu_kernel.for reduction %[[I:.*]] = 0 to 30000 step 7500
// CHECK:            %[[X:.*]] = lpu_kernel.load %{{.*}}[%{{.*}}, %[[I]]] [1, 7500]
// CHECK:            lpu_kernel.arg_fold min %[[X]] dim 1 at [%[[I]]] acc(
// CHECK:          lpu_kernel.store %[[P]]
func.func @position(%x: tensor<4x30000xf32>) -> tensor<4xi64> {
  %0 = lpu_graph.arg_reduce "min" %x dim 1 : tensor<4x30000xf32> -> tensor<4xi64>
  func.return %0 : tensor<4xi64>
}

// Unsigned bytes keep their order; a comparison gives bytes of 0 and 1.
// CHECK-LABEL: lpu_kernel.kernel @bytes_0(
// CHECK:          lpu_kernel.map {{.*}} -> (!lpu_kernel.tile<1x8xi1>) {
// CHECK:            arith.cmpi ult, %{{.*}}, %{{.*}} : i8
// CHECK-LABEL: lpu_kernel.kernel @bytes_1(
// CHECK-NOT:     arith.extsi
// CHECK:          arith.extui
// CHECK:          lpu_kernel.fold max
// CHECK-LABEL: func.func @bytes(
func.func @bytes(%x: tensor<4x8xui8>, %y: tensor<4x8xui8>) -> (tensor<4x8xi1>, tensor<4xui8>) {
  %0 = lpu_graph.pointwise "lt"(%x, %y) : tensor<4x8xui8>, tensor<4x8xui8> -> tensor<4x8xi1>
  %1 = lpu_graph.reduce "max" %x dims <[1]> : tensor<4x8xui8> -> tensor<4xui8>
  func.return %0, %1 : tensor<4x8xi1>, tensor<4xui8>
}

// A window has no negative stride: the positions are a tile.
// CHECK-LABEL: lpu_kernel.kernel @flip_0(
// CHECK:          %[[P:.*]] = lpu_kernel.map [2] at {{.*}} -> (!lpu_kernel.tile<2xi64>) {
// CHECK:          lpu_kernel.load %{{.*}}[0] [1] index 0 by %[[P]]
func.func @flip(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = lpu_graph.slice %x starts <[7]> steps <[-1]> : tensor<8xf32> -> tensor<8xf32>
  %1 = lpu_graph.pointwise "neg"(%0) : tensor<8xf32> -> tensor<8xf32>
  func.return %1 : tensor<8xf32>
}

// Read as it lies, written as it shall lie.
// CHECK-LABEL: lpu_kernel.kernel @transposed_0(
// CHECK:          %[[X:.*]] = lpu_kernel.load %{{.*}}[0, %[[C:.*]]] [4, 2]
// CHECK:          %[[Y:.*]] = lpu_kernel.map [2, 4] at [%[[C]], 0] ins(%[[X]] as [1, 0] : {{.*}}) -> (!lpu_kernel.tile<2x4xf32>)
// CHECK:          lpu_kernel.store %[[Y]], %{{.*}}[%[[C]], 0]
func.func @transposed(%x: tensor<4x8xf32>) -> tensor<8x4xf32> {
  %0 = lpu_graph.transpose %x <[1, 0]> : tensor<4x8xf32> -> tensor<8x4xf32>
  func.return %0 : tensor<8x4xf32>
}

// Nothing is computed, so there is no kernel.
// CHECK-NOT:    @empty_0
// CHECK-LABEL:  func.func @empty(
// CHECK-NEXT:     func.return
func.func @empty(%x: tensor<0x4xf32>) -> tensor<0x4xf32> {
  %0 = lpu_graph.pointwise "neg"(%x) : tensor<0x4xf32> -> tensor<0x4xf32>
  func.return %0 : tensor<0x4xf32>
}
