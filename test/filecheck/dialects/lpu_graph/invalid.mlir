// RUN: lpu-opt --split-input-file --verify-diagnostics --parsing-diagnostics %s | filecheck %s

%a = "test.op"() : () -> (tensor<?xf32>)
// CHECK: has a dynamic dimension but no symbolic extents
%0 = lpu_graph.reshape %a : tensor<?xf32> -> tensor<4xf32>

// -----

%a = "test.op"() : () -> (tensor<?x4xf32, #lpu.shape<[s0, 5]>>)
// CHECK: the extents [s0, 5] in tensor<?x4xf32, #lpu.shape<[s0, 5]>> do not fit its shape
%0 = lpu_graph.convert %a : tensor<?x4xf32, #lpu.shape<[s0, 5]>> -> tensor<?x4xf32, #lpu.shape<[s0, 5]>>

// -----

// CHECK: the extents [4] in tensor<2x2xf32, #lpu.shape<[4]>> do not fit its shape
%0 = lpu_graph.full 0.0 : f32 : tensor<2x2xf32, #lpu.shape<[4]>>

// -----

// CHECK: value is of type f32, expected i64
%0 = lpu_graph.full 1.0 : f32 : tensor<2xi64>

// -----

// CHECK: value is of type i8, expected ui8
%0 = lpu_graph.full 1 : i8 : tensor<2xui8>

// -----

// CHECK: result has extents [1], expected []
%0 = lpu_graph.extent <s0> : tensor<1xi64>

// -----

// CHECK: result element is i32, expected i64
%0 = lpu_graph.extent <s0> : tensor<i32>

// -----

// CHECK: dim [2] must be distinct and in [0, 2)
%0 = lpu_graph.iota 2 : tensor<2x3xi64>

// -----

// CHECK: result element is f32, expected i64
%0 = lpu_graph.iota 0 : tensor<2x3xf32>

// -----

%a, %b = "test.op"() : () -> (tensor<3x4xf32>, tensor<3x4xf32>)
// CHECK: unknown function 'plus', expected one of abs, acos
%0 = lpu_graph.pointwise "plus"(%a, %b) : tensor<3x4xf32>, tensor<3x4xf32> -> tensor<3x4xf32>

// -----

%a = "test.op"() : () -> (tensor<3x4xf32>)
// CHECK: 'add' takes 2 operands, got 1
%0 = lpu_graph.pointwise "add"(%a) : tensor<3x4xf32> -> tensor<3x4xf32>

// -----

%a, %b = "test.op"() : () -> (tensor<3x4xf32>, tensor<3x4xi64>)
// CHECK: operands have element types f32, i64, expected one type
%0 = lpu_graph.pointwise "add"(%a, %b) : tensor<3x4xf32>, tensor<3x4xi64> -> tensor<3x4xf32>

// -----

%a = "test.op"() : () -> (tensor<3x4xi64>)
// CHECK: 'sin' is not defined on i64
%0 = lpu_graph.pointwise "sin"(%a) : tensor<3x4xi64> -> tensor<3x4xi64>

// -----

%a, %b = "test.op"() : () -> (tensor<3x4xf32>, tensor<3x4xf32>)
// CHECK: 'and' is not defined on f32
%0 = lpu_graph.pointwise "and"(%a, %b) : tensor<3x4xf32>, tensor<3x4xf32> -> tensor<3x4xf32>

// -----

%a, %b = "test.op"() : () -> (tensor<3x4xi1>, tensor<3x4xi1>)
// CHECK: 'shl' is not defined on i1
%0 = lpu_graph.pointwise "shl"(%a, %b) : tensor<3x4xi1>, tensor<3x4xi1> -> tensor<3x4xi1>

// -----

%a, %b = "test.op"() : () -> (tensor<3x4xi1>, tensor<3x4xi1>)
// CHECK: 'sub' is not defined on i1
%0 = lpu_graph.pointwise "sub"(%a, %b) : tensor<3x4xi1>, tensor<3x4xi1> -> tensor<3x4xi1>

// -----

%a, %b, %c = "test.op"() : () -> (tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>)
// CHECK: the condition must be i1, got f32
%0 = lpu_graph.pointwise "select"(%a, %b, %c) : tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32> -> tensor<3x4xf32>

// -----

%a, %b = "test.op"() : () -> (tensor<3x4xf32>, tensor<3x4xf32>)
// CHECK: result element is f32, expected i1
%0 = lpu_graph.pointwise "lt"(%a, %b) : tensor<3x4xf32>, tensor<3x4xf32> -> tensor<3x4xf32>

// -----

%a = "test.op"() : () -> (tensor<3x4xf32>)
// CHECK: result element is f64, expected f32
%0 = lpu_graph.pointwise "neg"(%a) : tensor<3x4xf32> -> tensor<3x4xf64>

// -----

%a, %b = "test.op"() : () -> (tensor<3x4xf32>, tensor<4x3xf32>)
// CHECK: extents 3 and 4 of axis 0 differ
%0 = lpu_graph.pointwise "add"(%a, %b) : tensor<3x4xf32>, tensor<4x3xf32> -> tensor<3x4xf32>

// -----

%a, %b = "test.op"() : () -> (tensor<3x4xf32>, tensor<2x1x1xf32>)
// CHECK: result has extents [3, 4], expected [2, 3, 4]
%0 = lpu_graph.pointwise "add"(%a, %b) : tensor<3x4xf32>, tensor<2x1x1xf32> -> tensor<3x4xf32>

// -----

%a, %b = "test.op"() : () -> (tensor<?xf32, #lpu.shape<[s0]>>, tensor<?xf32, #lpu.shape<[s1]>>)
// CHECK: extents s0 and s1 of axis 0 differ
%0 = lpu_graph.pointwise "add"(%a, %b) : tensor<?xf32, #lpu.shape<[s0]>>, tensor<?xf32, #lpu.shape<[s1]>> -> tensor<?xf32, #lpu.shape<[s0]>>

// -----

%a = "test.op"() : () -> (tensor<3x4xf32>)
// CHECK: result has extents [4, 3], expected [3, 4]
%0 = lpu_graph.convert %a : tensor<3x4xf32> -> tensor<4x3xi64>

// -----

%a = "test.op"() : () -> (tensor<3x4xf32>)
// CHECK: unknown kind 'mean', expected one of add, mul, max, min, and, or, xor
%0 = lpu_graph.reduce "mean" %a dims <[0]> : tensor<3x4xf32> -> tensor<4xf32>

// -----

%a = "test.op"() : () -> (tensor<3x4xf32>)
// CHECK: 'xor' is not defined on f32
%0 = lpu_graph.reduce "xor" %a dims <[0]> : tensor<3x4xf32> -> tensor<4xf32>

// -----

%a = "test.op"() : () -> (tensor<3x4xi1>)
// CHECK: 'add' is not defined on i1
%0 = lpu_graph.reduce "add" %a dims <[0]> : tensor<3x4xi1> -> tensor<4xi1>

// -----

%a = "test.op"() : () -> (tensor<3x4xf32>)
// CHECK: dims [0, 0] must be distinct and in [0, 2)
%0 = lpu_graph.reduce "add" %a dims <[0, 0]> : tensor<3x4xf32> -> tensor<4xf32>

// -----

%a = "test.op"() : () -> (tensor<3x4xf32>)
// CHECK: dims [1, 0] must ascend
%0 = lpu_graph.reduce "add" %a dims <[1, 0]> : tensor<3x4xf32> -> tensor<f32>

// -----

%a = "test.op"() : () -> (tensor<3x4xf32>)
// CHECK: result has extents [3], expected [4]
%0 = lpu_graph.reduce "add" %a dims <[0]> : tensor<3x4xf32> -> tensor<3xf32>

// -----

%a = "test.op"() : () -> (tensor<3x4xf32>)
// CHECK: result element is f64, expected f32
%0 = lpu_graph.reduce "add" %a dims <[0]> : tensor<3x4xf32> -> tensor<4xf64>

// -----

%a = "test.op"() : () -> (tensor<3x4xf32>)
// CHECK: unknown kind 'add', expected max or min
%0 = lpu_graph.arg_reduce "add" %a dim 0 : tensor<3x4xf32> -> tensor<4xi64>

// -----

%a = "test.op"() : () -> (tensor<3x4xf32>)
// CHECK: dim [-1] must be distinct and in [0, 2)
%0 = lpu_graph.arg_reduce "max" %a dim -1 : tensor<3x4xf32> -> tensor<4xi64>

// -----

%a = "test.op"() : () -> (tensor<3x4xf32>)
// CHECK: result has extents [3], expected [4]
%0 = lpu_graph.arg_reduce "max" %a dim 0 : tensor<3x4xf32> -> tensor<3xi64>

// -----

%a = "test.op"() : () -> (tensor<3x4xf32>)
// CHECK: result element is f32, expected i64
%0 = lpu_graph.arg_reduce "max" %a dim 0 : tensor<3x4xf32> -> tensor<4xf32>

// -----

%a = "test.op"() : () -> (tensor<3x4xi64>)
// CHECK: unknown kind 'xor', expected one of add, mul, max, min
%0 = lpu_graph.scan "xor" %a dim 0 : tensor<3x4xi64> -> tensor<3x4xi64>

// -----

%a = "test.op"() : () -> (tensor<3x4xi1>)
// CHECK: 'mul' is not defined on i1
%0 = lpu_graph.scan "mul" %a dim 0 : tensor<3x4xi1> -> tensor<3x4xi1>

// -----

%a = "test.op"() : () -> (tensor<3x4xf32>)
// CHECK: dim [2] must be distinct and in [0, 2)
%0 = lpu_graph.scan "add" %a dim 2 : tensor<3x4xf32> -> tensor<3x4xf32>

// -----

%a = "test.op"() : () -> (tensor<3x4xf32>)
// CHECK: result type must be the operand's
%0 = lpu_graph.scan "add" %a dim 0 : tensor<3x4xf32> -> tensor<3x4xf64>

// -----

%a, %b = "test.op"() : () -> (tensor<3x4xf32>, tensor<4x5xf32>)
// CHECK: transpose needs two flags
%0 = lpu_graph.matmul %a, %b transpose [false] : tensor<3x4xf32>, tensor<4x5xf32> -> tensor<3x5xf32>

// -----

%a, %b = "test.op"() : () -> (tensor<3x4xf32>, tensor<4xf32>)
// CHECK: operands need one rank of at least 2, got
%0 = lpu_graph.matmul %a, %b transpose [false, false] : tensor<3x4xf32>, tensor<4xf32> -> tensor<3xf32>

// -----

%a, %b = "test.op"() : () -> (tensor<3x4xf32>, tensor<3x4xf32>)
// CHECK: contracted extents 4 and 3 differ
%0 = lpu_graph.matmul %a, %b transpose [false, false] : tensor<3x4xf32>, tensor<3x4xf32> -> tensor<3x4xf32>

// -----

%a, %b = "test.op"() : () -> (tensor<2x3x4xf32>, tensor<3x4x5xf32>)
// CHECK: and [Expr(3)] differ
%0 = lpu_graph.matmul %a, %b transpose [false, false] : tensor<2x3x4xf32>, tensor<3x4x5xf32> -> tensor<2x3x5xf32>

// -----

%a, %b = "test.op"() : () -> (tensor<3x4xf32>, tensor<4x5xf64>)
// CHECK: element types differ: 
%0 = lpu_graph.matmul %a, %b transpose [false, false] : tensor<3x4xf32>, tensor<4x5xf64> -> tensor<3x5xf32>

// -----

%a, %b = "test.op"() : () -> (tensor<3x4xf32>, tensor<5x4xf32>)
// CHECK: result has extents [3, 4], expected [3, 5]
%0 = lpu_graph.matmul %a, %b transpose [false, true] : tensor<3x4xf32>, tensor<5x4xf32> -> tensor<3x4xf32>

// -----

%a = "test.op"() : () -> (tensor<3x4xf32>)
// CHECK: the operand has 12 elements, the result 13
%0 = lpu_graph.reshape %a : tensor<3x4xf32> -> tensor<13xf32>

// -----

%a = "test.op"() : () -> (tensor<?xf32, #lpu.shape<[s0 + 1]>>)
// CHECK: the operand has s0 + 1 elements, the result s0
%0 = lpu_graph.reshape %a : tensor<?xf32, #lpu.shape<[s0 + 1]>> -> tensor<?xf32, #lpu.shape<[s0]>>

// -----

%a = "test.op"() : () -> (tensor<3x4xf32>)
// CHECK: result element is f64, expected f32
%0 = lpu_graph.reshape %a : tensor<3x4xf32> -> tensor<12xf64>

// -----

%a = "test.op"() : () -> (tensor<3x4xf32>)
// CHECK: (0, 0) is no permutation
%0 = lpu_graph.transpose %a <[0, 0]> : tensor<3x4xf32> -> tensor<3x4xf32>

// -----

%a = "test.op"() : () -> (tensor<3x4xf32>)
// CHECK: result has extents [3, 4], expected [4, 3]
%0 = lpu_graph.transpose %a <[1, 0]> : tensor<3x4xf32> -> tensor<3x4xf32>

// -----

%a = "test.op"() : () -> (tensor<3x4xf32>)
// CHECK: result element is f64, expected f32
%0 = lpu_graph.transpose %a <[1, 0]> : tensor<3x4xf32> -> tensor<4x3xf64>

// -----

%a = "test.op"() : () -> (tensor<3x4xf32>)
// CHECK: does not broadcast to tensor<3x5xf32>
%0 = lpu_graph.broadcast %a : tensor<3x4xf32> -> tensor<3x5xf32>

// -----

%a = "test.op"() : () -> (tensor<3x4xf32>)
// CHECK: does not broadcast to tensor<4xf32>
%0 = lpu_graph.broadcast %a : tensor<3x4xf32> -> tensor<4xf32>

// -----

%a = "test.op"() : () -> (tensor<3x4xf32>)
// CHECK: result element is f64, expected f32
%0 = lpu_graph.broadcast %a : tensor<3x4xf32> -> tensor<2x3x4xf64>

// -----

%a = "test.op"() : () -> (tensor<3x4xf32>)
// CHECK: starts, steps and result need the operand's rank 2
%0 = lpu_graph.slice %a starts <[0]> steps <[1, 1]> : tensor<3x4xf32> -> tensor<3x4xf32>

// -----

%a = "test.op"() : () -> (tensor<3x4xf32>)
// CHECK: a step of 0
%0 = lpu_graph.slice %a starts <[0, 0]> steps <[0, 1]> : tensor<3x4xf32> -> tensor<3x4xf32>

// -----

%a = "test.op"() : () -> (tensor<3x4xf32>)
// CHECK: axis 1 reads element 4 of an operand of extent 4
%0 = lpu_graph.slice %a starts <[0, 1]> steps <[1, 1]> : tensor<3x4xf32> -> tensor<3x4xf32>

// -----

%a = "test.op"() : () -> (tensor<3x4xf32>)
// CHECK: axis 0 reads element -1 of an operand of extent 3
%0 = lpu_graph.slice %a starts <[1, 0]> steps <[-1, 1]> : tensor<3x4xf32> -> tensor<3x4xf32>

// -----

%a = "test.op"() : () -> (tensor<?xf32, #lpu.shape<[s0]>>)
// CHECK: axis 0 reads element s0 of an operand of extent s0
%0 = lpu_graph.slice %a starts <[s0]> steps <[1]> : tensor<?xf32, #lpu.shape<[s0]>> -> tensor<1xf32>

// -----

%a = "test.op"() : () -> (tensor<3x4xf32>)
// CHECK: result element is f64, expected f32
%0 = lpu_graph.slice %a starts <[0, 0]> steps <[1, 1]> : tensor<3x4xf32> -> tensor<3x4xf64>

// -----

%a = "test.op"() : () -> (tensor<3x4xf32>)
// CHECK: low and result need the operand's rank 2
%0 = lpu_graph.pad %a low <[0]> value 0.0 : f32 : tensor<3x4xf32> -> tensor<3x4xf32>

// -----

%a = "test.op"() : () -> (tensor<3x4xf32>)
// CHECK: axis 1 has -1 elements before it
%0 = lpu_graph.pad %a low <[0, -1]> value 0.0 : f32 : tensor<3x4xf32> -> tensor<3x4xf32>

// -----

%a = "test.op"() : () -> (tensor<3x4xf32>)
// CHECK: value is of type f64, expected f32
%0 = lpu_graph.pad %a low <[0, 1]> value 0.0 : f64 : tensor<3x4xf32> -> tensor<3x5xf32>

// -----

%a = "test.op"() : () -> (tensor<3x4xf32>)
// CHECK: result element is f64, expected f32
%0 = lpu_graph.pad %a low <[0, 1]> value 0.0 : f64 : tensor<3x4xf32> -> tensor<3x5xf64>

// -----

// CHECK: needs an operand
%0 = "lpu_graph.concat"() <{dim = 0 : i64}> : () -> tensor<3x4xf32>

// -----

%a, %b = "test.op"() : () -> (tensor<3x4xf32>, tensor<3x4xf32>)
// CHECK: dim [2] must be distinct and in [0, 2)
%0 = lpu_graph.concat %a, %b dim 2 : tensor<3x4xf32>, tensor<3x4xf32> -> tensor<3x4xf32>

// -----

%a, %b = "test.op"() : () -> (tensor<3x4xf32>, tensor<3x4xf32>)
// CHECK: result has extents [5, 4], expected [6, 4]
%0 = lpu_graph.concat %a, %b dim 0 : tensor<3x4xf32>, tensor<3x4xf32> -> tensor<5x4xf32>

// -----

%a, %b = "test.op"() : () -> (tensor<3x4xf32>, tensor<3x5xf32>)
// CHECK: operand has extents [3, 5], expected [3, 4]
%0 = lpu_graph.concat %a, %b dim 0 : tensor<3x4xf32>, tensor<3x5xf32> -> tensor<6x4xf32>

// -----

%a, %b = "test.op"() : () -> (tensor<3x4xf32>, tensor<3x4xf64>)
// CHECK: operand element is f64, expected f32
%0 = lpu_graph.concat %a, %b dim 0 : tensor<3x4xf32>, tensor<3x4xf64> -> tensor<6x4xf32>

// -----

%a, %b = "test.op"() : () -> (tensor<3x4xf32>, tensor<5xi64>)
// CHECK: needs one index tensor for each dim
%0 = lpu_graph.gather %a[%b] dims <[0, 1]> at 0 : tensor<3x4xf32>[tensor<5xi64>] -> tensor<5xf32>

// -----

%a, %b = "test.op"() : () -> (tensor<3x4xf32>, tensor<5xi64>)
// CHECK: dims [2] must be distinct and in [0, 2)
%0 = lpu_graph.gather %a[%b] dims <[2]> at 0 : tensor<3x4xf32>[tensor<5xi64>] -> tensor<5x4xf32>

// -----

%a, %b = "test.op"() : () -> (tensor<3x4xf32>, tensor<5xi32>)
// CHECK: indices must be i64, got tensor<5xi32>
%0 = lpu_graph.gather %a[%b] dims <[0]> at 0 : tensor<3x4xf32>[tensor<5xi32>] -> tensor<5x4xf32>

// -----

%a, %b = "test.op"() : () -> (tensor<3x4xf32>, tensor<5xi64>)
// CHECK: at 2 is out of range
%0 = lpu_graph.gather %a[%b] dims <[0]> at 2 : tensor<3x4xf32>[tensor<5xi64>] -> tensor<5x4xf32>

// -----

%a, %b = "test.op"() : () -> (tensor<3x4xf32>, tensor<5xi64>)
// CHECK: result has extents [5, 4], expected [4, 5]
%0 = lpu_graph.gather %a[%b] dims <[0]> at 1 : tensor<3x4xf32>[tensor<5xi64>] -> tensor<5x4xf32>

// -----

%a, %b = "test.op"() : () -> (tensor<3x4xf32>, tensor<5xi64>)
// CHECK: result element is f64, expected f32
%0 = lpu_graph.gather %a[%b] dims <[0]> at 0 : tensor<3x4xf32>[tensor<5xi64>] -> tensor<5x4xf64>

// -----

%a, %b, %c = "test.op"() : () -> (tensor<3x4xf32>, tensor<5xi64>, tensor<6xi64>)
// CHECK: index has extents [6], expected [5]
%0 = lpu_graph.gather %a[%b, %c] dims <[0, 1]> at 0 : tensor<3x4xf32>[tensor<5xi64>, tensor<6xi64>] -> tensor<5xf32>

// -----

%a, %b, %c = "test.op"() : () -> (tensor<5x4xf32>, tensor<3x4xf32>, tensor<5xi64>)
// CHECK: unknown kind 'and', expected one of replace, add, mul, max, min
%0 = lpu_graph.scatter "and" %a, %b[%c] dims <[0]> at 0 : tensor<5x4xf32>, tensor<3x4xf32>[tensor<5xi64>] -> tensor<3x4xf32>

// -----

%a, %b, %c = "test.op"() : () -> (tensor<5x4xi1>, tensor<3x4xi1>, tensor<5xi64>)
// CHECK: 'add' is not defined on i1
%0 = lpu_graph.scatter "add" %a, %b[%c] dims <[0]> at 0 : tensor<5x4xi1>, tensor<3x4xi1>[tensor<5xi64>] -> tensor<3x4xi1>

// -----

%a, %b, %c = "test.op"() : () -> (tensor<4x5xf32>, tensor<3x4xf32>, tensor<5xi64>)
// CHECK: updates has extents [4, 5], expected [5, 4]
%0 = lpu_graph.scatter "add" %a, %b[%c] dims <[0]> at 0 : tensor<4x5xf32>, tensor<3x4xf32>[tensor<5xi64>] -> tensor<3x4xf32>

// -----

%a, %b, %c = "test.op"() : () -> (tensor<5x4xf64>, tensor<3x4xf32>, tensor<5xi64>)
// CHECK: updates element is f64, expected f32
%0 = lpu_graph.scatter "add" %a, %b[%c] dims <[0]> at 0 : tensor<5x4xf64>, tensor<3x4xf32>[tensor<5xi64>] -> tensor<3x4xf32>

// -----

%a, %b, %c = "test.op"() : () -> (tensor<5x4xf32>, tensor<3x4xf32>, tensor<5xi64>)
// CHECK: result type must be the input's
%0 = lpu_graph.scatter "add" %a, %b[%c] dims <[0]> at 0 : tensor<5x4xf32>, tensor<3x4xf32>[tensor<5xi64>] -> tensor<4x4xf32>

// -----

func.func @f(%x: tensor<4xf32>, %y: tensor<5xf32>) {
  // CHECK: value tensor<4xf32> and target tensor<5xf32> differ
  lpu_graph.write_back %x, %y : tensor<4xf32>, tensor<5xf32>
  func.return
}

// -----

func.func @f(%x: tensor<4xf32>, %y: tensor<5xf32>) {
  %0 = lpu_graph.pointwise "neg"(%x) : tensor<4xf32> -> tensor<4xf32>
  // CHECK: the target must be an argument of the function
  lpu_graph.write_back %x, %0 : tensor<4xf32>, tensor<4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<4xf32>, %y: tensor<5xf32>) {
  %0 = lpu_graph.pointwise "neg"(%x) : tensor<4xf32> -> tensor<4xf32>
  // CHECK: the target is written back more than once
  lpu_graph.write_back %0, %x : tensor<4xf32>, tensor<4xf32>
  lpu_graph.write_back %0, %x : tensor<4xf32>, tensor<4xf32>
  func.return
}

// -----

%x, %w = "test.op"() : () -> (tensor<1x4x9x8xf32>, tensor<6x2x3x2xf32>)
// CHECK: operands and result need one rank
%0 = lpu_graph.conv %x, %w strides <[2, 1]> dilations <[1, 3]> groups 2 : tensor<1x4x9x8xf32>, tensor<6x2x3x2xf32> -> tensor<6x4x5xf32>

// -----

%x, %w = "test.op"() : () -> (tensor<1x4x9x8xf32>, tensor<6x2x3x2xf32>)
// CHECK: the input has 4 channels, expected 2
%0 = lpu_graph.conv %x, %w strides <[2, 1]> dilations <[1, 3]> groups 1 : tensor<1x4x9x8xf32>, tensor<6x2x3x2xf32> -> tensor<1x6x4x5xf32>

// -----

%x, %w = "test.op"() : () -> (tensor<1x4x9x8xf32>, tensor<6x2x3x2xf32>)
// CHECK: 0 groups
%0 = lpu_graph.conv %x, %w strides <[2, 1]> dilations <[1, 3]> groups 0 : tensor<1x4x9x8xf32>, tensor<6x2x3x2xf32> -> tensor<1x6x4x5xf32>

// -----

%x, %w = "test.op"() : () -> (tensor<1x4x9x8xf32>, tensor<5x2x3x2xf32>)
// CHECK: 5 output channels cannot be divided into 2 groups
%0 = lpu_graph.conv %x, %w strides <[2, 1]> dilations <[1, 3]> groups 2 : tensor<1x4x9x8xf32>, tensor<5x2x3x2xf32> -> tensor<1x5x4x5xf32>

// -----

%x, %w = "test.op"() : () -> (tensor<1x4x9x8xf32>, tensor<6x2x3x2xf32>)
// CHECK: result has batch and channels
%0 = lpu_graph.conv %x, %w strides <[2, 1]> dilations <[1, 3]> groups 2 : tensor<1x4x9x8xf32>, tensor<6x2x3x2xf32> -> tensor<2x6x4x5xf32>

// -----

%x, %w = "test.op"() : () -> (tensor<1x4x9x8xf32>, tensor<6x2x3x2xf64>)
// CHECK: weight element is f64, expected f32
%0 = lpu_graph.conv %x, %w strides <[2, 1]> dilations <[1, 3]> groups 2 : tensor<1x4x9x8xf32>, tensor<6x2x3x2xf64> -> tensor<1x6x4x5xf32>

// -----

%x, %w = "test.op"() : () -> (tensor<1x4x9x8xf32>, tensor<6x2x3x2xf32>)
// CHECK: 1 strides and 2 dilations for 2 axes
%0 = lpu_graph.conv %x, %w strides <[2]> dilations <[1, 3]> groups 2 : tensor<1x4x9x8xf32>, tensor<6x2x3x2xf32> -> tensor<1x6x4x5xf32>

// -----

%x, %w = "test.op"() : () -> (tensor<1x4x9x8xf32>, tensor<6x2x3x2xf32>)
// CHECK: windows along axis 0 reach element 10 of an extent of 9
%0 = lpu_graph.conv %x, %w strides <[2, 1]> dilations <[1, 3]> groups 2 : tensor<1x4x9x8xf32>, tensor<6x2x3x2xf32> -> tensor<1x6x5x5xf32>

// -----

%x = "test.op"() : () -> tensor<3x9xf32>
// CHECK: 0 strides for an operand of rank 2
%0 = lpu_graph.windows %x strides <[]> dilations <[]> : tensor<3x9xf32> -> tensor<3x9xf32>

// -----

%x = "test.op"() : () -> tensor<3x9xf32>
// CHECK: result has rank 2, expected 3
%0 = lpu_graph.windows %x strides <[2]> dilations <[1]> : tensor<3x9xf32> -> tensor<3x4xf32>

// -----

%x = "test.op"() : () -> tensor<3x9xf32>
// CHECK: the first axes must be the operand's
%0 = lpu_graph.windows %x strides <[2]> dilations <[1]> : tensor<3x9xf32> -> tensor<4x4x3xf32>

// -----

%x = "test.op"() : () -> tensor<3x9xf32>
// CHECK: strides and dilations must be positive
%0 = lpu_graph.windows %x strides <[0]> dilations <[1]> : tensor<3x9xf32> -> tensor<3x4x3xf32>

// -----

%x = "test.op"() : () -> tensor<3x9xf32>
// CHECK: windows along axis 0 reach element 9 of an extent of 9
%0 = lpu_graph.windows %x strides <[2]> dilations <[1]> : tensor<3x9xf32> -> tensor<3x4x4xf32>

// -----

%x = "test.op"() : () -> tensor<3x9xf32>
// CHECK: result element is f64, expected f32
%0 = lpu_graph.windows %x strides <[2]> dilations <[1]> : tensor<3x9xf32> -> tensor<3x4x3xf64>

// -----

%x, %w = "test.op"() : () -> (tensor<1x4x9xf16>, tensor<6x4x3xf16>)
// CHECK: result element is bf16, expected f16
%0 = lpu_graph.conv %x, %w strides <[1]> dilations <[1]> groups 1 : tensor<1x4x9xf16>, tensor<6x4x3xf16> -> tensor<1x6x7xbf16>
