// RUN: lpu-opt -p verify-dominance --split-input-file --verify-diagnostics %s | filecheck %s

// Values of enclosing blocks, of earlier operations and of dominating blocks may be used.
// CHECK-LABEL: func.func @ordered
func.func @ordered(%arg0: i1) -> i32 {
  %outer = "test.op"() : () -> i32
  "test.op"() ({
    %inner = "test.op"(%outer) : (i32) -> i32
    "test.termop"(%inner) : (i32) -> ()
  }) : () -> ()
  "cf.cond_br"(%arg0)[^bb1, ^bb2] <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (i1) -> ()
^bb1:
  "cf.br"()[^bb2] : () -> ()
^bb2:
  // CHECK: func.return
  func.return %outer : i32
}

// -----

// CHECK: operand 1 (%late) of 'test.op', a result of 'test.pureop', does not dominate this use
// CHECK-NEXT: builtin.module
func.func @late(%arg0: i32) {
  "test.op"(%arg0, %late) : (i32, i32) -> ()
  %late = "test.pureop"() : () -> i32
  func.return
}

// -----

// An operation's results are not visible in its own regions.
// CHECK: operand 0 (%self) of 'test.termop', a result of 'test.op', does not dominate this use
// CHECK-NEXT: builtin.module
func.func @own_region() {
  %self = "test.op"() ({
    "test.termop"(%self) : (i32) -> ()
  }) : () -> i32
  func.return
}

// -----

// CHECK: operand 0 (%one) of 'test.op', a result of 'test.pureop', does not dominate this use
// CHECK-NEXT: builtin.module
func.func @sibling_block(%arg0: i1) {
  "cf.cond_br"(%arg0)[^bb1, ^bb2] <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (i1) -> ()
^bb1:
  %one = "test.pureop"() : () -> i32
  "cf.br"()[^bb2] : () -> ()
^bb2:
  "test.op"(%one) : (i32) -> ()
  func.return
}

// -----

// CHECK: func.func @after_the_errors
func.func @after_the_errors() {
  func.return
}
