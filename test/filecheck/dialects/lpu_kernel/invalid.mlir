// RUN: lpu-opt --split-input-file --verify-diagnostics --parsing-diagnostics %s | filecheck %s

// CHECK: tile element type i3 is not supported, expected f16, bf16, f32, f64, i1, i8, i16, i32, i64, ui8
"test.op"() : () -> !lpu_kernel.tile<8xi3>

// -----

// CHECK: tile space "dram" is unknown, expected one of ['sram', 'mpu_buffer']
"test.op"() : () -> !lpu_kernel.tile<8xf32, "dram">

// -----

// CHECK: a tile's shape is its capacity and must be static
"test.op"() : () -> !lpu_kernel.tile<8x?xf32>

// -----

// CHECK: expression names ['d2', 's3'], expected only d0.. for the 2 operands
%n = "test.op"() : () -> index
%o = lpu_kernel.apply <d1 + d2 * s3>(%n, %n)

// -----

%m = "test.op"() : () -> memref<8x4xf32, "shared_dram">
// CHECK: expected 2 offsets, one per dimension, got 1
%t = lpu_kernel.load %m[0] [8, 4] : memref<8x4xf32, "shared_dram"> -> !lpu_kernel.tile<8x4xf32>

// -----

%m = "test.op"() : () -> memref<8x4xf32, "shared_dram">
// CHECK: size 5 of dimension 1 is outside the tile's capacity of 4
%t = lpu_kernel.load %m[0, 0] [8, 5] : memref<8x4xf32, "shared_dram"> -> !lpu_kernel.tile<8x4xf32>

// -----

%m = "test.op"() : () -> memref<8x4xf32, "shared_dram">
// CHECK: tile element type f16 does not match the memref's f32
%t = lpu_kernel.load %m[0, 0] [8, 4] : memref<8x4xf32, "shared_dram"> -> !lpu_kernel.tile<8x4xf16>

// -----

%m = "test.op"() : () -> memref<8x4xf32, "shared_dram">
// CHECK: expected a tile of rank 2, the window's, got rank 1
%t = lpu_kernel.load %m[0, 0] [8, 4] : memref<8x4xf32, "shared_dram"> -> !lpu_kernel.tile<8xf32>

// -----

%m, %i = "test.op"() : () -> (memref<8x4xf32, "shared_dram">, !lpu_kernel.tile<3xi32>)
// CHECK: expected an index tile of i64, got one of i32
%t = lpu_kernel.load %m[0, 0] [1, 4] index 0 by %i : memref<8x4xf32, "shared_dram">, !lpu_kernel.tile<3xi32> -> !lpu_kernel.tile<3x4xf32>

// -----

%m, %i = "test.op"() : () -> (memref<8x4xf32, "shared_dram">, !lpu_kernel.tile<3xi64>)
// CHECK: index dimension 2 is outside the memref's rank 2
%t = lpu_kernel.load %m[0, 0] [1, 4] index 2 by %i : memref<8x4xf32, "shared_dram">, !lpu_kernel.tile<3xi64> -> !lpu_kernel.tile<3x4xf32>

// -----

%m, %i = "test.op"() : () -> (memref<8x4xf32, "shared_dram">, !lpu_kernel.tile<3xi64>)
// CHECK: the offset of the indexed dimension 0 must be 0
%t = lpu_kernel.load %m[1, 0] [1, 4] index 0 by %i : memref<8x4xf32, "shared_dram">, !lpu_kernel.tile<3xi64> -> !lpu_kernel.tile<3x4xf32>

// -----

%m, %i = "test.op"() : () -> (memref<8x4xf32, "shared_dram">, !lpu_kernel.tile<3xi64>)
// CHECK: the size of the indexed dimension 0 must be 1
%t = lpu_kernel.load %m[0, 0] [3, 4] index 0 by %i : memref<8x4xf32, "shared_dram">, !lpu_kernel.tile<3xi64> -> !lpu_kernel.tile<3x4xf32>

// -----

%m, %i = "test.op"() : () -> (memref<8x4xf32, "shared_dram">, !lpu_kernel.tile<3xi64>)
// CHECK: tile capacity [4, 4] must contain the index's [3] from dimension 0 on
%t = lpu_kernel.load %m[0, 0] [1, 4] index 0 by %i : memref<8x4xf32, "shared_dram">, !lpu_kernel.tile<3xi64> -> !lpu_kernel.tile<4x4xf32>

// -----

%m, %t, %i = "test.op"() : () -> (memref<8x4xf32, "shared_dram">, !lpu_kernel.tile<4x4xf32>, !lpu_kernel.tile<3xi64>)
// CHECK: tile capacity [4, 4] must contain the index's [3] from dimension 0 on
lpu_kernel.store %t, %m[0, 0] index 0 by %i : !lpu_kernel.tile<4x4xf32>, memref<8x4xf32, "shared_dram">, !lpu_kernel.tile<3xi64>

// -----

%m, %t = "test.op"() : () -> (memref<8xf32, "shared_dram">, !lpu_kernel.tile<8xf32>)
// CHECK: unknown store 'subtract', expected one of replace, add, mul, max, min
lpu_kernel.store subtract %t, %m[0] : !lpu_kernel.tile<8xf32>, memref<8xf32, "shared_dram">

// -----

%m, %t = "test.op"() : () -> (memref<8xi1, "shared_dram">, !lpu_kernel.tile<8xi1>)
// CHECK: 'add' stores numbers, got elements of i1
lpu_kernel.store add %t, %m[0] : !lpu_kernel.tile<8xi1>, memref<8xi1, "shared_dram">

// -----

// CHECK: fill value is f64, expected f32
%t = lpu_kernel.fill 0.0 : f64 [8] -> !lpu_kernel.tile<8xf32>

// -----

// CHECK: fill value is i16, expected i8
%t = lpu_kernel.fill 0 : i16 [8] -> !lpu_kernel.tile<8xui8>

// -----

%t = "test.op"() : () -> !lpu_kernel.tile<8x4xf32>
// CHECK: dropped dims [1] must have size 1
%s = lpu_kernel.slice %t[0, 0] [8, 4] drop [1] : !lpu_kernel.tile<8x4xf32> -> !lpu_kernel.tile<8xf32>

// -----

%t = "test.op"() : () -> !lpu_kernel.tile<8x4xf32>
// CHECK: expected a result of rank 1, got 2
%s = lpu_kernel.slice %t[0, 0] [8, 1] drop [1] : !lpu_kernel.tile<8x4xf32> -> !lpu_kernel.tile<8x1xf32>

// -----

%t = "test.op"() : () -> !lpu_kernel.tile<8x4xf32>
// CHECK: result element type f16 differs from the operand's f32
%s = lpu_kernel.slice %t[0, 0] [8, 4] : !lpu_kernel.tile<8x4xf32> -> !lpu_kernel.tile<8x4xf16>

// -----

%t = "test.op"() : () -> !lpu_kernel.tile<8x4xf32>
// CHECK: input dims [0, 0] must be distinct and within 0..1
%s = lpu_kernel.map [8, 4] ins(%t as [0, 0] : !lpu_kernel.tile<8x4xf32>) -> (!lpu_kernel.tile<8x4xf32>) {
^bb0(%i: index, %j: index, %a: f32):
  lpu_kernel.yield %a : f32
}

// -----

%t = "test.op"() : () -> !lpu_kernel.tile<1x4xf32>
// CHECK: size 8 of dimension 0 is outside the tile's capacity of 1
%s = lpu_kernel.map [8, 4] ins(%t as [0, 1] : !lpu_kernel.tile<1x4xf32>) -> (!lpu_kernel.tile<8x4xf32>) {
^bb0(%i: index, %j: index, %a: f32):
  lpu_kernel.yield %a : f32
}

// -----

%t = "test.op"() : () -> !lpu_kernel.tile<8xui8>
// CHECK: region arguments are (index, ui8), expected (index, i8)
%s = lpu_kernel.map [8] ins(%t as [0] : !lpu_kernel.tile<8xui8>) -> (!lpu_kernel.tile<8xui8>) {
^bb0(%i: index, %a: ui8):
  lpu_kernel.yield %a : ui8
}

// -----

%t = "test.op"() : () -> !lpu_kernel.tile<8xf32>
// CHECK: the region yields (f32), expected (f64)
%s = lpu_kernel.map [8] ins(%t as [0] : !lpu_kernel.tile<8xf32>) -> (!lpu_kernel.tile<8xf64>) {
^bb0(%i: index, %a: f32):
  lpu_kernel.yield %a : f32
}

// -----

// CHECK: test.op in the region, expected arith, math and lpu.remf only
%s = lpu_kernel.map [8] -> (!lpu_kernel.tile<8xf32>) {
^bb0(%i: index):
  %a = "test.op"() : () -> f32
  lpu_kernel.yield %a : f32
}

// -----

%t = "test.op"() : () -> !lpu_kernel.tile<8x4xf32>
// CHECK: unknown fold 'mean', expected one of add, mul, max, min, and, or, xor
%s = lpu_kernel.fold mean %t [1] : !lpu_kernel.tile<8x4xf32> -> !lpu_kernel.tile<8xf32>

// -----

%t = "test.op"() : () -> !lpu_kernel.tile<8x4xbf16>
// CHECK: 'add' accumulates in the element type, expected f32, f64 or a signless integer, got bf16
%s = lpu_kernel.fold add %t [1] : !lpu_kernel.tile<8x4xbf16> -> !lpu_kernel.tile<8xbf16>

// -----

%t = "test.op"() : () -> !lpu_kernel.tile<8x4xf32>
// CHECK: 'xor' needs integers or i1, got f32
%s = lpu_kernel.fold xor %t [1] : !lpu_kernel.tile<8x4xf32> -> !lpu_kernel.tile<8xf32>

// -----

%t = "test.op"() : () -> !lpu_kernel.tile<8x4xf32>
// CHECK: expected a result of capacity [8], got [4]
%s = lpu_kernel.fold add %t [1] : !lpu_kernel.tile<8x4xf32> -> !lpu_kernel.tile<4xf32>

// -----

%t, %a = "test.op"() : () -> (!lpu_kernel.tile<8x4xf32>, !lpu_kernel.tile<4xf32>)
// CHECK: accumulator is !lpu_kernel.tile<4xf32>, expected !lpu_kernel.tile<8xf32>
%s = lpu_kernel.fold add %t [1] acc(%a : !lpu_kernel.tile<4xf32>) : !lpu_kernel.tile<8x4xf32> -> !lpu_kernel.tile<8xf32>

// -----

%t = "test.op"() : () -> !lpu_kernel.tile<8x4xf32>
// CHECK: indices are i64, got i32
%s, %i = lpu_kernel.arg_fold max %t dim 1 at [0] : !lpu_kernel.tile<8x4xf32> -> !lpu_kernel.tile<8xf32>, !lpu_kernel.tile<8xi32>

// -----

%t, %a = "test.op"() : () -> (!lpu_kernel.tile<8x4xf32>, !lpu_kernel.tile<8xf32>)
// CHECK: an accumulator is a tile of values and a tile of indices
%s, %i = lpu_kernel.arg_fold max %t dim 1 at [0] acc(%a : !lpu_kernel.tile<8xf32>) : !lpu_kernel.tile<8x4xf32> -> !lpu_kernel.tile<8xf32>, !lpu_kernel.tile<8xi64>

// -----

%t, %a = "test.op"() : () -> (!lpu_kernel.tile<8x4xf32>, !lpu_kernel.tile<4xf32>)
// CHECK: expected a carry of capacity [8], got [4]
%s = lpu_kernel.scan add %t dim 1 carry(%a : !lpu_kernel.tile<4xf32>) : !lpu_kernel.tile<8x4xf32> -> !lpu_kernel.tile<8x4xf32>

// -----

%t = "test.op"() : () -> !lpu_kernel.tile<8x4xf32>
// CHECK: dim 2 has capacity 8 in one place and 4 in another
%s = lpu_kernel.contract %t as [0, 2], %t as [2, 1] : !lpu_kernel.tile<8x4xf32>, !lpu_kernel.tile<8x4xf32> -> !lpu_kernel.tile<8x4xf32>

// -----

%t = "test.op"() : () -> !lpu_kernel.tile<8x4xf32>
// CHECK: operand of f32 cannot be accumulated in i32
%s = lpu_kernel.contract %t as [0, 2], %t as [1, 2] : !lpu_kernel.tile<8x4xf32>, !lpu_kernel.tile<8x4xf32> -> !lpu_kernel.tile<8x8xi32>

// -----

%t = "test.op"() : () -> !lpu_kernel.tile<8x4xf32>
// CHECK: result dims [1] are named by no operand
%s = lpu_kernel.contract %t as [0, 2], %t as [0, 2] : !lpu_kernel.tile<8x4xf32>, !lpu_kernel.tile<8x4xf32> -> !lpu_kernel.tile<8x8xf32>

// -----

%t = "test.op"() : () -> !lpu_kernel.tile<8xi1>
// CHECK: unknown error 'OSError', expected one of IndexError, ZeroDivisionError, RuntimeError
lpu_kernel.check %t, "OSError", "no" : !lpu_kernel.tile<8xi1>

// -----

%t = "test.op"() : () -> !lpu_kernel.tile<8xi8>
// CHECK: expected a condition of i1, got i8
lpu_kernel.check %t, "IndexError", "no" : !lpu_kernel.tile<8xi8>

// -----

%t = "test.op"() : () -> !lpu_kernel.tile<8xf32>
// CHECK: a parallel loop carries nothing, expected reduction
%s = lpu_kernel.for parallel %i = 0 to 8 step 1 iter_args(%a = %t) -> (!lpu_kernel.tile<8xf32>) {
  lpu_kernel.yield %a : !lpu_kernel.tile<8xf32>
}

// -----

// CHECK: step 0 must be at least 1
lpu_kernel.for parallel %i = 0 to 8 step 0 {
}

// -----

%t, %u = "test.op"() : () -> (!lpu_kernel.tile<8xf32>, !lpu_kernel.tile<4xf32>)
// CHECK: yielded values are (!lpu_kernel.tile<4xf32>), expected the types of iter_args (!lpu_kernel.tile<8xf32>)
%s = lpu_kernel.for reduction %i = 0 to 8 step 1 iter_args(%a = %t) -> (!lpu_kernel.tile<8xf32>) {
  lpu_kernel.yield %u : !lpu_kernel.tile<4xf32>
}

// -----

// CHECK: 1 access words for 0 memref arguments
lpu_kernel.kernel @k(%n: index) access [ro] cores 8 {
}

// -----

// CHECK: unknown memory space 'sram', expected one of shared_dram, private_dram, mpu_dram
lpu_kernel.kernel @k(%x: memref<8xf32, "sram">) access [ro] cores 8 {
}

// -----

// CHECK: lpu_kernel.store of an argument with access wo, needs rw
lpu_kernel.kernel @k(%x: memref<8xf32, "shared_dram">) access [wo] cores 8 {
  lpu_kernel.phase cores(%c) {
    %t = lpu_kernel.fill 0.0 : f32 [8] -> !lpu_kernel.tile<8xf32>
    lpu_kernel.store add %t, %x[0] : !lpu_kernel.tile<8xf32>, memref<8xf32, "shared_dram">
  }
}

// -----

// CHECK: lpu_kernel.store of an argument with access ro, needs wo or rw
lpu_kernel.kernel @k(%x: memref<8xf32, "shared_dram">) access [ro] cores 8 {
  lpu_kernel.phase cores(%c) {
    %t = lpu_kernel.fill 0.0 : f32 [8] -> !lpu_kernel.tile<8xf32>
    lpu_kernel.store %t, %x[0] : !lpu_kernel.tile<8xf32>, memref<8xf32, "shared_dram">
  }
}

// -----

// CHECK: lpu_kernel.load of an argument with access wo, needs ro or rw
lpu_kernel.kernel @k(%x: memref<8xf32, "shared_dram">) access [wo] cores 8 {
  lpu_kernel.phase cores(%c) {
    %t = lpu_kernel.load %x[0] [8] : memref<8xf32, "shared_dram"> -> !lpu_kernel.tile<8xf32>
  }
}

// -----

// CHECK: channel @a has 0 requests and 1 receives, expected exactly one of each
lpu_kernel.kernel @k(%x: memref<8xf32, "shared_dram">) access [ro] cores 8 {
  lpu_kernel.channel @a depth 2 : !lpu_kernel.tile<8xf32>
  lpu_kernel.phase cores(%c) {
    %t = lpu_kernel.receive @a : !lpu_kernel.tile<8xf32>
  }
}

// -----

// CHECK: channel @a is requested under 1 loops and received under 0: they must be equal
lpu_kernel.kernel @k(%x: memref<8xf32, "shared_dram">) access [ro] cores 8 {
  lpu_kernel.channel @a depth 2 : !lpu_kernel.tile<8xf32>
  lpu_kernel.phase top(%d) {
    lpu_kernel.for sequential %i = 0 to 4 step 1 {
      lpu_kernel.request @a %x[0] [8] to all : memref<8xf32, "shared_dram">
    }
  } cores(%c) {
    %t = lpu_kernel.receive @a : !lpu_kernel.tile<8xf32>
  }
}

// -----

// CHECK: request 'to all' on channel @a depends on the core, expected 'to each'
lpu_kernel.kernel @k(%x: memref<8xf32, "shared_dram">) access [ro] cores 8 {
  lpu_kernel.channel @a depth 2 : !lpu_kernel.tile<1xf32>
  lpu_kernel.phase top(%d) {
    %o = lpu_kernel.apply <d0>(%d)
    lpu_kernel.request @a %x[%o] [1] to all : memref<8xf32, "shared_dram">
  } cores(%c) {
    %t = lpu_kernel.receive @a : !lpu_kernel.tile<1xf32>
  }
}

// -----

// CHECK: receive of !lpu_kernel.tile<8xf32> from channel @a of !lpu_kernel.tile<4xf32>
lpu_kernel.kernel @k(%x: memref<8xf32, "shared_dram">) access [ro] cores 8 {
  lpu_kernel.channel @a depth 2 : !lpu_kernel.tile<4xf32>
  lpu_kernel.phase top(%d) {
    lpu_kernel.request @a %x[0] [4] to all : memref<8xf32, "shared_dram">
  } cores(%c) {
    %t = lpu_kernel.receive @a : !lpu_kernel.tile<8xf32>
  }
}

// -----

// CHECK: request to channel @a: size 8 of dimension 0 is outside the tile's capacity of 4
lpu_kernel.kernel @k(%x: memref<8xf32, "shared_dram">) access [ro] cores 8 {
  lpu_kernel.channel @a depth 2 : !lpu_kernel.tile<4xf32>
  lpu_kernel.phase top(%d) {
    lpu_kernel.request @a %x[0] [8] to all : memref<8xf32, "shared_dram">
  } cores(%c) {
    %t = lpu_kernel.receive @a : !lpu_kernel.tile<4xf32>
  }
}

// -----

// CHECK: lpu_kernel.load cannot stand in 'top' of a phase
lpu_kernel.kernel @k(%x: memref<8xf32, "shared_dram">) access [ro] cores 8 {
  lpu_kernel.phase top(%d) {
    %t = lpu_kernel.load %x[0] [8] : memref<8xf32, "shared_dram"> -> !lpu_kernel.tile<8xf32>
  } cores(%c) {
  }
}

// -----

// CHECK: lpu_kernel.receive names channel @b, which the kernel does not have
lpu_kernel.kernel @k() access [] cores 8 {
  lpu_kernel.phase cores(%c) {
    %t = lpu_kernel.receive @b : !lpu_kernel.tile<8xf32>
  }
}

// -----

// CHECK: arith.constant in a kernel, expected channels and phases
lpu_kernel.kernel @k() access [] cores 8 {
  %n = arith.constant 1 : index
}

// -----

%t = "test.op"() : () -> !lpu_kernel.tile<8x64xf32>
// CHECK: 2 dims and 3 steps for a result of rank 3
%w = lpu_kernel.windows %t along [0, 1] steps [1, 2, 1] [8, 4, 3] : !lpu_kernel.tile<8x64xf32> -> !lpu_kernel.tile<8x4x3xf32>

// -----

%t = "test.op"() : () -> !lpu_kernel.tile<8x64xf32>
// CHECK: the result moves along dims {{\[}}1], expected every one of 0..1
%w = lpu_kernel.windows %t along [1, 1] steps [2, 1] [4, 3] : !lpu_kernel.tile<8x64xf32> -> !lpu_kernel.tile<4x3xf32>

// -----

%t = "test.op"() : () -> !lpu_kernel.tile<8x64xf32>
// CHECK: must be positive
%w = lpu_kernel.windows %t along [0, 1, 1] steps [1, 0, 1] [8, 4, 3] : !lpu_kernel.tile<8x64xf32> -> !lpu_kernel.tile<8x4x3xf32>

// -----

%t = "test.op"() : () -> !lpu_kernel.tile<8x64xf32>
// CHECK: size 9 of dimension 0 is outside the tile's capacity of 8
%w = lpu_kernel.windows %t along [0, 1, 1] steps [1, 2, 1] [9, 4, 3] : !lpu_kernel.tile<8x64xf32> -> !lpu_kernel.tile<8x4x3xf32>

// -----

%t = "test.op"() : () -> !lpu_kernel.tile<8x64xf32>
// CHECK: result element type f64 differs from the operand's f32
%w = lpu_kernel.windows %t along [0, 1, 1] steps [1, 2, 1] [8, 4, 3] : !lpu_kernel.tile<8x64xf32> -> !lpu_kernel.tile<8x4x3xf64>
