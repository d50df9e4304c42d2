// RUN: lpu-opt --split-input-file --verify-diagnostics --parsing-diagnostics %s | filecheck %s

// CHECK: symbol s0: upper bound 1 is below the lower bound 2
"test.op"() {s = #lpu.symbol<"s0", 2, 1, 2>} : () -> ()

// -----

// CHECK: expected an integer, a name or '(' in an lpu expression
"test.op"() {e = #lpu.expr<s0 + >} : () -> ()

// -----

// CHECK: a layout needs one stride for each extent, got 1 for 2
"test.op"() {l = #lpu.layout<[2, 3], [3], 0>} : () -> ()

// -----

%a = "test.op"() : () -> (tensor<3x4xf32>)
// CHECK: 'aten.sort' is no overload, expected a name such as aten.sort.default
%v = "lpu.host_call"(%a) <{overload = "aten.sort", arguments = {}, reason = ""}> : (tensor<3x4xf32>) -> tensor<3x4xf32>

// -----

%a = "test.op"() : () -> (tensor<3x4xf32>)
// CHECK: arguments name operand 1, got 1 operands
%v = "lpu.host_call"(%a) <{overload = "aten.sort.default", arguments = {"0" = [#lpu.operand<0>, #lpu.operand<1>]}, reason = ""}> : (tensor<3x4xf32>) -> tensor<3x4xf32>

// -----

%a, %b = "test.op"() : () -> (i32, i32)
// CHECK: Unexpected attribute i32
%r = lpu.remf %a, %b : i32

// -----

func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  func.return %x : tensor<4xf32>
}
%p, %x = "test.op"() : () -> (tensor<2xi1>, tensor<4xf32>)
// CHECK: decides by tensor<2xi1>, expected one element of i1
%r = lpu.if %p then @f else @f(%x) : tensor<2xi1>, (tensor<4xf32>) -> (tensor<4xf32>)

// -----

func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  func.return %x : tensor<4xf32>
}
%p, %x = "test.op"() : () -> (tensor<i1>, tensor<4xf32>)
// CHECK: no function is called @g
%r = lpu.if %p then @f else @g(%x) : tensor<i1>, (tensor<4xf32>) -> (tensor<4xf32>)

// -----

func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  func.return %x : tensor<4xf32>
}
%p, %x = "test.op"() : () -> (tensor<i1>, tensor<5xf32>)
// CHECK: @f takes (tensor<4xf32>), got (tensor<5xf32>)
%r = lpu.if %p then @f else @f(%x) : tensor<i1>, (tensor<5xf32>) -> (tensor<5xf32>)

// -----

func.func @f(%x: tensor<i1>) -> tensor<i1> {
  func.return %x : tensor<i1>
}
%x = "test.op"() : () -> (tensor<i1>)
// CHECK: @f must give nothing
%r = lpu.while @f do @f(%x)() : (tensor<i1>), () -> (tensor<i1>)
