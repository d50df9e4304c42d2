// RUN: lpu-opt -t llvm-ir %s | filecheck %s
// RUN: lpu-opt -t "llvm-ir{machine=x86-64-v4}" %s | filecheck --check-prefix=WIDE %s
// RUN: lpu-opt -t "llvm-ir{machine=aarch64}" %s | filecheck --check-prefix=NARROW %s

// A map that is read once is computed where it is stored; what is left over is one masked step.
// CHECK:       ; @double: 0 bytes of scratch
// CHECK-NEXT:  ; @phase0 on 4 cores
// CHECK:       define void @phase0(ptr %args, ptr %scratch, i64 %lo, i64 %hi, ptr %fail)
// CHECK-SAME:  "min-legal-vector-width"="256"
// CHECK:       %[[V:.*]] = load <8 x float>, ptr %{{.*}}, align 4
// CHECK-NEXT:  %[[W:.*]] = fadd <8 x float> %[[V]], %[[V]]
// CHECK-NEXT:  %[[Y:.*]] = getelementptr inbounds float
// CHECK-NEXT:  store <8 x float> %[[W]], ptr %[[Y]], align 4
// CHECK:       icmp slt <8 x i64> <i64 0, i64 1, i64 2, i64 3, i64 4, i64 5, i64 6, i64 7>
// CHECK:       call <8 x float> @llvm.masked.load.v8f32.p0
// CHECK:       call void @llvm.masked.store.v8f32.p0
// WIDE:        fadd <16 x float>
// NARROW:      fadd <4 x float>
lpu_kernel.kernel @double(%x: memref<100xf32, "shared_dram">, %y: memref<100xf32, "shared_dram">) access [ro, wo] cores 4 {
  lpu_kernel.phase cores(%c) {
    %o = lpu_kernel.apply <25 * d0>(%c)
    %t = lpu_kernel.load %x[%o] [25] : memref<100xf32, "shared_dram"> -> !lpu_kernel.tile<25xf32>
    %r = lpu_kernel.map [25] at [%o] ins(%t as [0] : !lpu_kernel.tile<25xf32>) -> (!lpu_kernel.tile<25xf32>) {
    ^bb0(%i : index, %v : f32):
      %w = arith.addf %v, %v : f32
      lpu_kernel.yield %w : f32
    }
    lpu_kernel.store %r, %y[%o] : !lpu_kernel.tile<25xf32>, memref<100xf32, "shared_dram">
  }
}

// A map that is read twice is put into scratch memory.  A sum along contiguous elements has four
// accumulators, joined at the end.  Sizes that are not known come with the arguments.
// CHECK:       ; @centred: 1028 bytes of scratch
// CHECK:       %[[S:.*]] = getelementptr i8, ptr %scratch, i64 {{[0-9]+}}
// CHECK:       phi <8 x float>
// CHECK-NEXT:  phi <8 x float>
// CHECK-NEXT:  phi <8 x float>
// CHECK-NEXT:  phi <8 x float>
lpu_kernel.kernel @centred(%x: memref<?xf32, "shared_dram">, %y: memref<?xf32, "shared_dram">, %n: index) access [ro, wo] cores 1 {
  lpu_kernel.phase cores(%c) {
    %t = lpu_kernel.load %x[0] [%n] : memref<?xf32, "shared_dram"> -> !lpu_kernel.tile<256xf32>
    %s = lpu_kernel.map [%n] ins(%t as [0] : !lpu_kernel.tile<256xf32>) -> (!lpu_kernel.tile<256xf32>) {
    ^bb0(%i : index, %v : f32):
      %w = arith.mulf %v, %v : f32
      lpu_kernel.yield %w : f32
    }
    %f = lpu_kernel.fold add %s [0] : !lpu_kernel.tile<256xf32> -> !lpu_kernel.tile<f32>
    %r = lpu_kernel.map [%n] ins(%s as [0], %f as [] : !lpu_kernel.tile<256xf32>, !lpu_kernel.tile<f32>) -> (!lpu_kernel.tile<256xf32>) {
    ^bb0(%i : index, %v : f32, %m : f32):
      %w = arith.subf %v, %m : f32
      lpu_kernel.yield %w : f32
    }
    lpu_kernel.store %r, %y[0] : !lpu_kernel.tile<256xf32>, memref<?xf32, "shared_dram">
  }
}

// A check notes its number, if it is the first that fails.
// CHECK:       ; check 1: IndexError: out of range
// CHECK:       %[[BAD:.*]] = xor i1 %{{.*}}, true
// CHECK:       load i64, ptr %fail
// CHECK:       store i64 1, ptr %fail
lpu_kernel.kernel @checked(%x: memref<i64, "shared_dram">) access [ro] cores 1 {
  lpu_kernel.phase cores(%c) {
    %t = lpu_kernel.load %x[] [] : memref<i64, "shared_dram"> -> !lpu_kernel.tile<i64>
    %r = lpu_kernel.map [] ins(%t as [] : !lpu_kernel.tile<i64>) -> (!lpu_kernel.tile<i1>) {
    ^bb0(%v : i64):
      %z = arith.constant 4 : i64
      %b = arith.cmpi ult, %v, %z : i64
      lpu_kernel.yield %b : i1
    }
    lpu_kernel.check %r, "IndexError", "out of range" : !lpu_kernel.tile<i1>
  }
}
