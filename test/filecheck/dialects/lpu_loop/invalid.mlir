// RUN: lpu-opt --split-input-file --verify-diagnostics --parsing-diagnostics %s | filecheck %s

%a, %b, %c = "test.op"() : () -> (tensor<4xf32>, tensor<5xf32>, memref<4xf32>)
// CHECK: needs one result for each tensor in outs and none for memrefs
lpu_loop.nest [d0 = 4] outs(%a : tensor<4xf32>) {
  %z = arith.constant 0 : i64
}

// -----

%a, %b, %c = "test.op"() : () -> (tensor<4xf32>, tensor<5xf32>, memref<4xf32>)
// CHECK: needs one result for each tensor in outs and none for memrefs
%0 = lpu_loop.nest [d0 = 4] outs(%a : tensor<4xf32>) {
  %z = arith.constant 0 : i64
} -> tensor<5xf32>

// -----

%a, %b, %c = "test.op"() : () -> (tensor<4xf32>, tensor<5xf32>, memref<4xf32>)
// CHECK: outs must be all tensors or all memrefs
lpu_loop.nest [d0 = 4] outs(%a, %c : tensor<4xf32>, memref<4xf32>) {
  %z = arith.constant 0 : i64
}

// -----

%a, %b, %c = "test.op"() : () -> (tensor<4xf32>, tensor<5xf32>, memref<4xf32>)
// CHECK: the operands in outs must differ
lpu_loop.nest [d0 = 4] outs(%c, %c : memref<4xf32>, memref<4xf32>) {
  %z = arith.constant 0 : i64
}

// -----

%a, %b, %c = "test.op"() : () -> (tensor<4xf32>, tensor<5xf32>, memref<4xf32>)
// CHECK: dims ['d0', 'd0'] are not distinct
lpu_loop.nest [d0 = 4, d0 = 3] outs(%c : memref<4xf32>) {
  %z = arith.constant 0 : i64
}

// -----

%a, %b, %c = "test.op"() : () -> (tensor<4xf32>, tensor<5xf32>, memref<4xf32>)
// CHECK: dim 'r0' must be named d0, d1, …
lpu_loop.nest [r0 = 4] outs(%c : memref<4xf32>) {
  %z = arith.constant 0 : i64
}

// -----

%a, %b, %c = "test.op"() : () -> (tensor<4xf32>, tensor<5xf32>, memref<4xf32>)
// CHECK: dim 'i' must be named d0, d1, …
lpu_loop.nest [i = 4] outs(%c : memref<4xf32>) {
  %z = arith.constant 0 : i64
}

// -----

%a, %b, %c = "test.op"() : () -> (tensor<4xf32>, tensor<5xf32>, memref<4xf32>)
// CHECK: dim 'd0' has extent -1
lpu_loop.nest [d0 = -1] outs(%c : memref<4xf32>) {
  %z = arith.constant 0 : i64
}

// -----

%a, %b, %c = "test.op"() : () -> (tensor<4xf32>, tensor<5xf32>, memref<4xf32>)
// CHECK: 'd0' in [d0] is no dim or index in scope
lpu_loop.nest [d0 = 4, d1 = d0] outs(%c : memref<4xf32>) {
  %z = arith.constant 0 : i64
}

// -----

%a, %b, %c = "test.op"() : () -> (tensor<4xf32>, tensor<5xf32>, memref<4xf32>)
// CHECK: the body takes no arguments
lpu_loop.nest [d0 = 4] outs(%c : memref<4xf32>) {
^bb0(%i: i64):
}

// -----

%a, %b, %c = "test.op"() : () -> (tensor<4xf32>, tensor<5xf32>, memref<4xf32>)
// CHECK: must be inside lpu_loop.nest
%0 = lpu_loop.load %a[0] : tensor<4xf32>

// -----

%a, %b, %c = "test.op"() : () -> (tensor<4xf32>, tensor<4xf32>, i64)
%0 = lpu_loop.nest [d0 = 4] outs(%b : tensor<4xf32>) {
  // CHECK: 2 index expressions for tensor<4xf32> of rank 1
  %1 = lpu_loop.load %a[d0, 0] : tensor<4xf32>
} -> tensor<4xf32>

// -----

%a, %b, %c = "test.op"() : () -> (tensor<4xf32>, tensor<4xf32>, i64)
%0 = lpu_loop.nest [d0 = 4] outs(%b : tensor<4xf32>) {
  // CHECK: 'd1' in [d1] is no dim or index in scope
  %1 = lpu_loop.load %a[d1] : tensor<4xf32>
} -> tensor<4xf32>

// -----

%a, %b, %c = "test.op"() : () -> (tensor<4xf32>, tensor<4xf32>, i64)
%0 = lpu_loop.nest [d0 = 4] outs(%b : tensor<4xf32>) {
  // CHECK: 'r0' in [d0 + r0] is no dim or index in scope
  %1 = lpu_loop.load %a[d0 + r0] : tensor<4xf32>
} -> tensor<4xf32>

// -----

%a, %b, %c = "test.op"() : () -> (tensor<4xf32>, tensor<4xf32>, i64)
%0 = lpu_loop.nest [d0 = 4] outs(%b : tensor<4xf32>) {
  // CHECK: '_1' in [_1] is no dim or index in scope
  %1 = lpu_loop.load %a[_1](%c) : tensor<4xf32>
} -> tensor<4xf32>

// -----

%a, %b, %c = "test.op"() : () -> (tensor<4xf32>, tensor<4xf32>, i64)
%0 = lpu_loop.nest [d0 = 4] outs(%b : tensor<4xf32>) {
  // CHECK: gives f64, expected f32
  %1 = "lpu_loop.load"(%a) <{index = #lpu.shape<[d0]>}> : (tensor<4xf32>) -> f64
} -> tensor<4xf32>

// -----

%a, %b = "test.op"() : () -> (tensor<4xui8>, tensor<4xf32>)
%0 = lpu_loop.nest [d0 = 4] outs(%b : tensor<4xf32>) {
  // CHECK: gives ui8, expected i8
  %1 = "lpu_loop.load"(%a) <{index = #lpu.shape<[d0]>}> : (tensor<4xui8>) -> ui8
} -> tensor<4xf32>

// -----

%a, %b, %c = "test.op"() : () -> (tensor<4xf32>, tensor<4xf32>, i64)
%0 = lpu_loop.nest [d0 = 4] outs(%b : tensor<4xf32>) {
  %1 = lpu_loop.load %a[d0] : tensor<4xf32>
  // CHECK: unknown kind 'and', expected one of replace, add, mul, max, min
  lpu_loop.store "and" %1, %b[d0] : f32, tensor<4xf32>
} -> tensor<4xf32>

// -----

%a, %b, %c = "test.op"() : () -> (tensor<4xf32>, tensor<4xf32>, i64)
%0 = lpu_loop.nest [d0 = 4] outs(%b : tensor<4xf32>) {
  // CHECK: stores i64, expected f32
  lpu_loop.store "add" %c, %b[d0] : i64, tensor<4xf32>
} -> tensor<4xf32>

// -----

%a, %b, %c = "test.op"() : () -> (tensor<4xf32>, tensor<4xf32>, i64)
%0 = lpu_loop.nest [d0 = 4] outs(%b : tensor<4xf32>) {
  %1 = lpu_loop.load %a[d0] : tensor<4xf32>
  // CHECK: must stand directly in a nest that has its target in outs
  lpu_loop.store "add" %1, %a[d0] : f32, tensor<4xf32>
} -> tensor<4xf32>

// -----

%a, %b, %c = "test.op"() : () -> (tensor<4xf32>, tensor<4xf32>, i64)
%0 = lpu_loop.nest [d0 = 4] outs(%b : tensor<4xf32>) {
  %1 = lpu_loop.load %a[d0] : tensor<4xf32>
  %2 = lpu_loop.fold "add" [r0 = 4] : f32 {
    // CHECK: must stand directly in a nest that has its target in outs
    lpu_loop.store "add" %1, %b[d0] : f32, tensor<4xf32>
    lpu_loop.yield %1 : f32
  }
} -> tensor<4xf32>

// -----

%a, %b, %c = "test.op"() : () -> (tensor<4xf32>, tensor<4xf32>, i64)
%0 = lpu_loop.nest [d0 = 4] outs(%b : tensor<4xf32>) {
  // CHECK: 'd1' in [d1] is no dim or index in scope
  %1 = lpu_loop.index d1 : i64
} -> tensor<4xf32>

// -----

%a, %b, %c = "test.op"() : () -> (tensor<4xf32>, tensor<4xf32>, i64)
%0 = lpu_loop.nest [d0 = 4] outs(%b : tensor<4xf32>) {
  // CHECK: 'i64' expected
  %1 = lpu_loop.index d0 : f32
} -> tensor<4xf32>

// -----

%a, %b, %c = "test.op"() : () -> (tensor<4xf32>, tensor<4xf32>, i64)
%0 = lpu_loop.nest [d0 = 4] outs(%b : tensor<4xf32>) {
  %1 = lpu_loop.load %a[d0] : tensor<4xf32>
  // CHECK: unknown kind 'mean', expected one of add, mul, max, min, and, or, xor
  %2 = lpu_loop.fold "mean" [r0 = 4] : f32 {
    lpu_loop.yield %1 : f32
  }
} -> tensor<4xf32>

// -----

%a, %b, %c = "test.op"() : () -> (tensor<4xf32>, tensor<4xf32>, i64)
%0 = lpu_loop.nest [d0 = 4] outs(%b : tensor<4xf32>) {
  %1 = lpu_loop.load %a[d0] : tensor<4xf32>
  // CHECK: 'or' is not defined on f32
  %2 = lpu_loop.fold "or" [r0 = 4] : f32 {
    lpu_loop.yield %1 : f32
  }
} -> tensor<4xf32>

// -----

%a, %b, %c = "test.op"() : () -> (tensor<4xf32>, tensor<4xf32>, i64)
%0 = lpu_loop.nest [d0 = 4] outs(%b : tensor<4xf32>) {
  %1 = lpu_loop.load %a[d0] : tensor<4xf32>
  // CHECK: yields f32, expected f64
  %2 = lpu_loop.fold "add" [r0 = 4] : f64 {
    lpu_loop.yield %1 : f32
  }
} -> tensor<4xf32>

// -----

%a, %b, %c = "test.op"() : () -> (tensor<4xf32>, tensor<4xf32>, i64)
%0 = lpu_loop.nest [d0 = 4] outs(%b : tensor<4xf32>) {
  %1 = lpu_loop.load %a[d0] : tensor<4xf32>
  // CHECK: a region must end in lpu_loop.yield
  %2 = lpu_loop.fold "add" [r0 = 4] : f32 {
    "test.termop"() : () -> ()
  }
} -> tensor<4xf32>

// -----

%a, %b, %c = "test.op"() : () -> (tensor<4xf32>, tensor<4xf32>, i64)
%0 = lpu_loop.nest [d0 = 4] outs(%b : tensor<4xf32>) {
  %1 = lpu_loop.load %a[d0] : tensor<4xf32>
  // CHECK: a region takes no arguments
  %2 = lpu_loop.fold "add" [r0 = 4] : f32 {
  ^bb0(%i: i64):
    lpu_loop.yield %1 : f32
  }
} -> tensor<4xf32>

// -----

%a, %b, %c = "test.op"() : () -> (tensor<4xf32>, tensor<4xf32>, i64)
%0 = lpu_loop.nest [d0 = 4] outs(%b : tensor<4xf32>) {
  %1 = lpu_loop.load %a[d0] : tensor<4xf32>
  // CHECK: dim 'd1' must be named r0, r1, …
  %2 = lpu_loop.fold "add" [d1 = 4] : f32 {
    lpu_loop.yield %1 : f32
  }
} -> tensor<4xf32>

// -----

%a, %b, %c = "test.op"() : () -> (tensor<4xf32>, tensor<4xf32>, i64)
%0 = lpu_loop.nest [d0 = 4] outs(%b : tensor<4xf32>) {
  %1 = lpu_loop.load %a[d0] : tensor<4xf32>
  // CHECK: dims ['r0', 'r0'] are not distinct
  %2 = lpu_loop.fold "add" [r0 = 4, r0 = 4] : f32 {
    lpu_loop.yield %1 : f32
  }
} -> tensor<4xf32>

// -----

%a, %b, %c = "test.op"() : () -> (tensor<4xf32>, tensor<4xf32>, i64)
%0 = lpu_loop.nest [d0 = 4] outs(%b : tensor<4xf32>) {
  %1 = lpu_loop.load %a[d0] : tensor<4xf32>
  // CHECK: 'r7' in [r7] is no dim or index in scope
  %2 = lpu_loop.fold "add" [r0 = r7] : f32 {
    lpu_loop.yield %1 : f32
  }
} -> tensor<4xf32>

// -----

%a, %b, %c = "test.op"() : () -> (tensor<4xf32>, tensor<4xf32>, i64)
%0 = lpu_loop.nest [d0 = 4] outs(%b : tensor<4xf32>) {
  %1 = lpu_loop.load %a[d0] : tensor<4xf32>
  %2 = lpu_loop.fold "add" [r0 = 4] : f32 {
    // CHECK: dim 'r0' hides one around it
    %3 = lpu_loop.fold "add" [r0 = 4] : f32 {
      lpu_loop.yield %1 : f32
    }
    lpu_loop.yield %3 : f32
  }
} -> tensor<4xf32>

// -----

%a, %b, %c = "test.op"() : () -> (tensor<4xf32>, tensor<4xf32>, i64)
%0 = lpu_loop.nest [d0 = 4] outs(%b : tensor<4xf32>) {
  %1 = lpu_loop.load %a[d0] : tensor<4xf32>
  // CHECK: unknown kind 'add', expected one of max, min
  %2 = lpu_loop.arg_fold "add" [r0 = 4] : i64 {
    lpu_loop.yield %1 : f32
  }
} -> tensor<4xf32>

// -----

%a, %b, %c = "test.op"() : () -> (tensor<4xf32>, tensor<4xf32>, i64)
%0 = lpu_loop.nest [d0 = 4] outs(%b : tensor<4xf32>) {
  %1 = lpu_loop.load %a[d0] : tensor<4xf32>
  // CHECK: takes one dim
  %2 = lpu_loop.arg_fold "max" [r0 = 4, r1 = 4] : i64 {
    lpu_loop.yield %1 : f32
  }
} -> tensor<4xf32>

// -----

%a, %b, %c = "test.op"() : () -> (tensor<4xf32>, tensor<4xf32>, i64)
%0 = lpu_loop.nest [d0 = 4] outs(%b : tensor<4xf32>) {
  %1 = lpu_loop.load %a[d0] : tensor<4xf32>
  // CHECK: gives f32, expected i64
  %2 = lpu_loop.arg_fold "max" [r0 = 4] : f32 {
    lpu_loop.yield %1 : f32
  }
} -> tensor<4xf32>

// -----

%a, %b, %c = "test.op"() : () -> (tensor<4xf32>, tensor<4xf32>, i64)
%0 = lpu_loop.nest [d0 = 4] outs(%b : tensor<4xf32>) {
  %1 = lpu_loop.load %a[d0] : tensor<4xf32>
  // CHECK: a region must end in lpu_loop.yield
  %2 = lpu_loop.arg_fold "max" [r0 = 4] : i64 {
    "test.termop"() : () -> ()
  }
} -> tensor<4xf32>

// -----

%a, %b, %c = "test.op"() : () -> (tensor<4xf32>, tensor<4xf32>, i64)
%0 = lpu_loop.nest [d0 = 4] outs(%b : tensor<4xf32>) {
  %1 = lpu_loop.load %a[d0] : tensor<4xf32>
  // CHECK: unknown kind 'xor', expected one of add, mul, max, min
  %2 = lpu_loop.scan "xor" [r0 = 4] along d0 : f32 {
    lpu_loop.yield %1 : f32
  }
} -> tensor<4xf32>

// -----

%a, %b, %c = "test.op"() : () -> (tensor<4xf32>, tensor<4xf32>, i64)
%0 = lpu_loop.nest [d0 = 4] outs(%b : tensor<4xf32>) {
  %1 = lpu_loop.load %a[d0] : tensor<4xf32>
  // CHECK: takes one dim
  %2 = lpu_loop.scan "add" [r0 = 4, r1 = 4] along d0 : f32 {
    lpu_loop.yield %1 : f32
  }
} -> tensor<4xf32>

// -----

%a, %b, %c = "test.op"() : () -> (tensor<4xf32>, tensor<4xf32>, i64)
%0 = lpu_loop.nest [d0 = 4] outs(%b : tensor<4xf32>) {
  %1 = lpu_loop.load %a[d0] : tensor<4xf32>
  // CHECK: 'd1' is no dim in scope
  %2 = lpu_loop.scan "add" [r0 = 4] along d1 : f32 {
    lpu_loop.yield %1 : f32
  }
} -> tensor<4xf32>

// -----

%a, %b, %c = "test.op"() : () -> (tensor<4xf32>, tensor<4xf32>, i64)
%0 = lpu_loop.nest [d0 = 4] outs(%b : tensor<4xf32>) {
  %1 = lpu_loop.load %a[d0] : tensor<4xf32>
  // CHECK: 'r0' has extent 3, 'd0' has 4
  %2 = lpu_loop.scan "add" [r0 = 3] along d0 : f32 {
    lpu_loop.yield %1 : f32
  }
} -> tensor<4xf32>

// -----

%a, %b, %c = "test.op"() : () -> (tensor<4xf32>, tensor<4xf32>, i64)
%0 = lpu_loop.nest [d0 = 4] outs(%b : tensor<4xf32>) {
  %1 = lpu_loop.load %a[d0] : tensor<4xf32>
  // CHECK: yields f32, expected f64
  %2 = lpu_loop.scan "add" [r0 = 4] along d0 : f64 {
    lpu_loop.yield %1 : f32
  }
} -> tensor<4xf32>

// -----

%a, %b, %c = "test.op"() : () -> (tensor<4xf32>, tensor<4xf32>, i64)
%0 = lpu_loop.nest [d0 = 4] outs(%b : tensor<4xf32>) {
  %1 = lpu_loop.load %a[d0] : tensor<4xf32>
  // CHECK: needs 2 regions, got 1
  %2 = lpu_loop.pieces d0 at [2] : f32 {
    lpu_loop.yield %1 : f32
  }
} -> tensor<4xf32>

// -----

%a, %b, %c = "test.op"() : () -> (tensor<4xf32>, tensor<4xf32>, i64)
%0 = lpu_loop.nest [d0 = 4] outs(%b : tensor<4xf32>) {
  %1 = lpu_loop.load %a[d0] : tensor<4xf32>
  // CHECK: 'd1' in [d1] is no dim or index in scope
  %2 = lpu_loop.pieces d1 at [2] : f32 {
    lpu_loop.yield %1 : f32
  } {
    lpu_loop.yield %1 : f32
  }
} -> tensor<4xf32>

// -----

%a, %b, %c = "test.op"() : () -> (tensor<4xf32>, tensor<4xf32>, i64)
%0 = lpu_loop.nest [d0 = 4] outs(%b : tensor<4xf32>) {
  %1 = lpu_loop.load %a[d0] : tensor<4xf32>
  // CHECK: 'r0' in [r0] is no dim or index in scope
  %2 = lpu_loop.pieces d0 at [r0] : f32 {
    lpu_loop.yield %1 : f32
  } {
    lpu_loop.yield %1 : f32
  }
} -> tensor<4xf32>

// -----

%a, %b, %c = "test.op"() : () -> (tensor<4xf32>, tensor<4xf32>, i64)
%0 = lpu_loop.nest [d0 = 4] outs(%b : tensor<4xf32>) {
  %1 = lpu_loop.load %a[d0] : tensor<4xf32>
  // CHECK: bound s0 - 1 follows s0
  %2 = lpu_loop.pieces d0 at [s0, s0 - 1] : f32 {
    lpu_loop.yield %1 : f32
  } {
    lpu_loop.yield %1 : f32
  } {
    lpu_loop.yield %1 : f32
  }
} -> tensor<4xf32>

// -----

%a, %b, %c = "test.op"() : () -> (tensor<4xf32>, tensor<4xf32>, i64)
%0 = lpu_loop.nest [d0 = 4] outs(%b : tensor<4xf32>) {
  %1 = lpu_loop.load %a[d0] : tensor<4xf32>
  // CHECK: yields f32, expected f64
  %2 = lpu_loop.pieces d0 at [2] : f64 {
    lpu_loop.yield %1 : f32
  } {
    lpu_loop.yield %1 : f32
  }
} -> tensor<4xf32>

// -----

%a, %b, %c = "test.op"() : () -> (tensor<4xf32>, tensor<4xf32>, i64)
%0 = lpu_loop.nest [d0 = 4] outs(%b : tensor<4xf32>) {
  %1 = arith.constant true
  // CHECK: unknown kind 'KeyError', expected one of IndexError, ZeroDivisionError, RuntimeError
  lpu_loop.check %1, "KeyError", "missing"
} -> tensor<4xf32>

// -----

%a, %b, %c = "test.op"() : () -> (tensor<4xf32>, tensor<4xf32>, i64)
%0 = lpu_loop.nest [d0 = 4] outs(%b : tensor<4xf32>) {
  %1 = arith.constant true
  %9 = lpu_loop.load %a[d0] : tensor<4xf32>
  %2 = lpu_loop.fold "add" [r0 = 4] : f32 {
    // CHECK: must stand directly in a nest
    lpu_loop.check %1, "IndexError", "too far"
    lpu_loop.yield %9 : f32
  }
} -> tensor<4xf32>

// -----

func.func @f(%x: tensor<4xf32>, %y: tensor<5xf32>) {
  // CHECK: value tensor<4xf32> and target tensor<5xf32> differ
  lpu_loop.write_back %x, %y : tensor<4xf32>, tensor<5xf32>
  func.return
}

// -----

func.func @f(%x: tensor<4xf32>, %y: tensor<5xf32>) {
  %0 = lpu_loop.empty : tensor<4xf32>
  // CHECK: the target must be an argument of the function
  lpu_loop.write_back %x, %0 : tensor<4xf32>, tensor<4xf32>
  func.return
}

// -----

%a, %b = "test.op"() : () -> (tensor<?xf32>, tensor<4xf32>)
%0 = lpu_loop.nest [d0 = 4] outs(%b : tensor<4xf32>) {
  // CHECK: has a dynamic dimension but no symbolic extents
  %1 = lpu_loop.load %a[0] : tensor<?xf32>
} -> tensor<4xf32>

// -----

%a, %b, %c = "test.op"() : () -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
// CHECK: dims ['d0', 'd1', 'd1'] of the parts are not distinct
%0, %1 = lpu_loop.nest [d0 = 1] outs(%b, %c : tensor<4xf32>, tensor<4xf32>) {
  %2 = lpu_loop.load %a[d0] : tensor<4xf32>
  lpu_loop.over [d1 = 4] {
    lpu_loop.store "replace" %2, %b[d1] : f32, tensor<4xf32>
  }
  lpu_loop.over [d1 = 4] {
    lpu_loop.store "replace" %2, %c[d1] : f32, tensor<4xf32>
  }
} -> tensor<4xf32>, tensor<4xf32>

// -----

%a, %b = "test.op"() : () -> (tensor<4xf32>, tensor<4xf32>)
%0 = lpu_loop.nest [] outs(%b : tensor<4xf32>) {
  // CHECK: stores and parts must come last
  lpu_loop.over [d1 = 4] {
    %1 = lpu_loop.load %a[d1] : tensor<4xf32>
    lpu_loop.store "replace" %1, %b[d1] : f32, tensor<4xf32>
    %2 = lpu_loop.load %a[0] : tensor<4xf32>
  }
} -> tensor<4xf32>

// -----

%b, %v = "test.op"() : () -> (tensor<4xf32>, f32)
%0 = lpu_loop.nest [] outs(%b : tensor<4xf32>) {
  // CHECK: needs a dim
  lpu_loop.over [] {
    lpu_loop.store "replace" %v, %b[0] : f32, tensor<4xf32>
  }
} -> tensor<4xf32>

// -----

%b, %v = "test.op"() : () -> (tensor<4xf32>, f32)
%0 = lpu_loop.nest [] outs(%b : tensor<4xf32>) {
  lpu_loop.over [d0 = 4] {
    lpu_loop.store "replace" %v, %b[d0] : f32, tensor<4xf32>
  }
  // CHECK: 'd0' in [d0] is no dim or index in scope
  lpu_loop.store "replace" %v, %b[d0] : f32, tensor<4xf32>
} -> tensor<4xf32>
