// RUN: lpu-opt -p "split-reductions{parts=4 least=1000}" --split-input-file %s | filecheck %s

// Four parts, and the two elements that they leave.
// CHECK:      func.func @all(%x: tensor<4002xf32>)
// CHECK:        %[[F:.*]] = lpu_loop.empty : tensor<4xf32>
// CHECK-NEXT:   %[[P:.*]] = lpu_loop.nest [d0 = 4] outs(%[[F]] : tensor<4xf32>) {
// CHECK-NEXT:     %[[S:.*]] = lpu_loop.fold "add" [r0 = 1000] : f32 {
// CHECK-NEXT:       %[[V:.*]] = lpu_loop.load %x[1000 * d0 + r0] : tensor<4002xf32>
// CHECK-NEXT:       lpu_loop.yield %[[V]] : f32
// CHECK-NEXT:     }
// CHECK-NEXT:     lpu_loop.store "replace" %[[S]], %[[F]][d0]
// CHECK:        lpu_loop.nest [] outs(%{{.*}} : tensor<f32>) {
// CHECK-NEXT:     %[[A:.*]] = lpu_loop.fold "add" [r0 = 4] : f32 {
// CHECK-NEXT:       lpu_loop.load %[[P]][r0] : tensor<4xf32>
// CHECK:          %[[B:.*]] = lpu_loop.fold "add" [r0 = 2] : f32 {
// CHECK-NEXT:       lpu_loop.load %x[r0 + 4000] : tensor<4002xf32>
// CHECK:          %[[C:.*]] = arith.addf %[[A]], %[[B]] : f32
// CHECK-NEXT:     %[[N:.*]] = arith.negf %[[C]] : f32
// CHECK-NEXT:     lpu_loop.store "replace" %[[N]],
func.func @all(%x: tensor<4002xf32>) -> tensor<f32> {
  %e = lpu_loop.empty : tensor<f32>
  %y = lpu_loop.nest [] outs(%e : tensor<f32>) {
    %0 = lpu_loop.fold "add" [r0 = 4002] : f32 {
      %1 = lpu_loop.load %x[r0] : tensor<4002xf32>
      lpu_loop.yield %1 : f32
    }
    %2 = arith.negf %0 : f32
    lpu_loop.store "replace" %2, %e[] : f32, tensor<f32>
  } -> tensor<f32>
  func.return %y : tensor<f32>
}

// -----

// Every core would find the maximum by itself: the points of the fold count, not those of the nest.
// The longest dim is split; nothing is left of it.
// CHECK:      func.func @shared
// CHECK:        lpu_loop.nest [d0 = 4] outs(%{{.*}} : tensor<4xf32>) {
// CHECK-NEXT:     lpu_loop.fold "max" [r0 = 3, r1 = 1000] : f32 {
// CHECK-NEXT:       lpu_loop.load %x[r0, 1000 * d0 + r1]
// CHECK:        lpu_loop.nest [d0 = 3, d1 = 4000] outs
// CHECK-NEXT:     lpu_loop.load %x[d0, d1]
// CHECK-NEXT:     lpu_loop.fold "max" [r0 = 4]
// CHECK-NOT:      lpu_loop.fold
func.func @shared(%x: tensor<3x4000xf32>) -> tensor<3x4000xf32> {
  %e = lpu_loop.empty : tensor<3x4000xf32>
  %y = lpu_loop.nest [d0 = 3, d1 = 4000] outs(%e : tensor<3x4000xf32>) {
    %0 = lpu_loop.load %x[d0, d1] : tensor<3x4000xf32>
    %1 = lpu_loop.fold "max" [r0 = 3, r1 = 4000] : f32 {
      %2 = lpu_loop.load %x[r0, r1] : tensor<3x4000xf32>
      lpu_loop.yield %2 : f32
    }
    %3 = arith.subf %0, %1 : f32
    lpu_loop.store "replace" %3, %e[d0, d1] : f32, tensor<3x4000xf32>
  } -> tensor<3x4000xf32>
  func.return %y : tensor<3x4000xf32>
}

// -----

// An extent that is not known leaves a remainder that is not known.
// CHECK:      func.func @unknown
// CHECK:        lpu_loop.fold "or" [r0 = (s0 floordiv 4)] : i1 {
// CHECK-NEXT:     lpu_loop.load %x[d0 * (s0 floordiv 4) + r0]
// CHECK:        lpu_loop.fold "or" [r0 = 4] : i1 {
// CHECK:        lpu_loop.fold "or" [r0 = s0 - 4 * (s0 floordiv 4)] : i1 {
// CHECK-NEXT:     lpu_loop.load %x[r0 + 4 * (s0 floordiv 4)]
// CHECK:        arith.ori
func.func @unknown(%x: tensor<?xi1, #lpu.shape<[s0]>>) -> tensor<i1> attributes {lpu.symbols = [#lpu.symbol<"s0", 0, -1, 5000>]} {
  %e = lpu_loop.empty : tensor<i1>
  %y = lpu_loop.nest [] outs(%e : tensor<i1>) {
    %0 = lpu_loop.fold "or" [r0 = s0] : i1 {
      %1 = lpu_loop.load %x[r0] : tensor<?xi1, #lpu.shape<[s0]>>
      lpu_loop.yield %1 : i1
    }
    lpu_loop.store "replace" %0, %e[] : i1, tensor<i1>
  } -> tensor<i1>
  func.return %y : tensor<i1>
}

// -----

// What stays as it is: with a point for each core, with too few elements, with too short dims, with
// an order, and with a check.
// CHECK:      func.func @kept
// CHECK-NOT:    tensor<4x
// CHECK-NOT:    x4xf32
// CHECK-COUNT-6: lpu_loop.empty
// CHECK-NOT:    lpu_loop.empty
func.func @kept(%x: tensor<2x4000xf32>, %z: tensor<999xf32>, %p: tensor<3x3x3x3x3x3x3xf32>, %i: tensor<2x4000xi64>)
    -> (tensor<2xf32>, tensor<f32>, tensor<f32>, tensor<i64>, tensor<f32>, tensor<8xf32>) {
  %e0 = lpu_loop.empty : tensor<2xf32>
  %0 = lpu_loop.nest [d0 = 2] outs(%e0 : tensor<2xf32>) {
    %a = lpu_loop.fold "add" [r0 = 4000] : f32 {
      %v = lpu_loop.load %x[d0, r0] : tensor<2x4000xf32>
      lpu_loop.yield %v : f32
    }
    lpu_loop.store "replace" %a, %e0[d0] : f32, tensor<2xf32>
  } -> tensor<2xf32>
  %e1 = lpu_loop.empty : tensor<f32>
  %1 = lpu_loop.nest [] outs(%e1 : tensor<f32>) {
    %a = lpu_loop.fold "add" [r0 = 999] : f32 {
      %v = lpu_loop.load %z[r0] : tensor<999xf32>
      lpu_loop.yield %v : f32
    }
    lpu_loop.store "replace" %a, %e1[] : f32, tensor<f32>
  } -> tensor<f32>
  %e2 = lpu_loop.empty : tensor<f32>
  %2 = lpu_loop.nest [] outs(%e2 : tensor<f32>) {
    %a = lpu_loop.fold "add" [r0 = 3, r1 = 3, r2 = 3, r3 = 3, r4 = 3, r5 = 3, r6 = 3] : f32 {
      %v = lpu_loop.load %p[r0, r1, r2, r3, r4, r5, r6] : tensor<3x3x3x3x3x3x3xf32>
      lpu_loop.yield %v : f32
    }
    lpu_loop.store "replace" %a, %e2[] : f32, tensor<f32>
  } -> tensor<f32>
  %e3 = lpu_loop.empty : tensor<i64>
  %3 = lpu_loop.nest [] outs(%e3 : tensor<i64>) {
    %a = lpu_loop.arg_fold "max" [r0 = 4000] : i64 {
      %v = lpu_loop.load %x[0, r0] : tensor<2x4000xf32>
      lpu_loop.yield %v : f32
    }
    lpu_loop.store "replace" %a, %e3[] : i64, tensor<i64>
  } -> tensor<i64>
  %e4 = lpu_loop.empty : tensor<f32>
  %4 = lpu_loop.nest [] outs(%e4 : tensor<f32>) {
    %c = lpu_loop.load %i[0, 0] : tensor<2x4000xi64>
    %n = arith.constant 2 : i64
    %ok = arith.cmpi ult, %c, %n : i64
    lpu_loop.check %ok, "IndexError", "index out of range"
    %a = lpu_loop.fold "add" [r0 = 4000] : f32 {
      %v = lpu_loop.load %x[_0, r0](%c) : tensor<2x4000xf32>
      lpu_loop.yield %v : f32
    }
    lpu_loop.store "replace" %a, %e4[] : f32, tensor<f32>
  } -> tensor<f32>
  %e5 = lpu_loop.empty : tensor<8xf32>
  %5 = lpu_loop.nest [d0 = 8] outs(%e5 : tensor<8xf32>) {
    %a = lpu_loop.fold "add" [r0 = 4000] : f32 {
      %v = lpu_loop.load %x[1, r0] : tensor<2x4000xf32>
      %w = lpu_loop.index d0 + r0 : i64
      %u = arith.sitofp %w : i64 to f32
      %t = arith.mulf %v, %u : f32
      lpu_loop.yield %t : f32
    }
    lpu_loop.store "replace" %a, %e5[d0] : f32, tensor<8xf32>
  } -> tensor<8xf32>
  func.return %0, %1, %2, %3, %4, %5 : tensor<2xf32>, tensor<f32>, tensor<f32>, tensor<i64>, tensor<f32>, tensor<8xf32>
}

// -----

// An attention is one walk over products, which its parts would each compute again.
// CHECK:      func.func @attention
// CHECK-COUNT-1: lpu_loop.nest
// CHECK-NOT:  lpu_loop.nest
// CHECK:      func.return
func.func @attention(%q: tensor<2x8xf32>, %k: tensor<8000x8xf32>) -> tensor<2xf32> {
  %e = lpu_loop.empty : tensor<2xf32>
  %y = lpu_loop.nest [d0 = 2] outs(%e : tensor<2xf32>) {
    %inf = arith.constant 0xff800000 : f32
    %zero = arith.constant 0.0 : f32
    %m = lpu_loop.fold "max" [r1 = 8000] : f32 {
      %s = lpu_loop.fold "add" [r0 = 8] : f32 {
        %0 = lpu_loop.load %q[d0, r0] : tensor<2x8xf32>
        %1 = lpu_loop.load %k[r1, r0] : tensor<8000x8xf32>
        %2 = arith.mulf %0, %1 : f32
        lpu_loop.yield %2 : f32
      }
      lpu_loop.yield %s : f32
    }
    %c = arith.cmpf oeq, %m, %inf : f32
    %h = arith.select %c, %zero, %m : f32
    %l = lpu_loop.fold "add" [r2 = 8000] : f32 {
      %s = lpu_loop.fold "add" [r0 = 8] : f32 {
        %0 = lpu_loop.load %q[d0, r0] : tensor<2x8xf32>
        %1 = lpu_loop.load %k[r2, r0] : tensor<8000x8xf32>
        %2 = arith.mulf %0, %1 : f32
        lpu_loop.yield %2 : f32
      }
      %d = arith.subf %s, %h : f32
      %p = math.exp %d : f32
      lpu_loop.yield %p : f32
    }
    lpu_loop.store "replace" %l, %e[d0] : f32, tensor<2xf32>
  } -> tensor<2xf32>
  func.return %y : tensor<2xf32>
}
