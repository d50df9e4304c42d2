// RUN: lpu-opt %s | lpu-opt | filecheck %s
// RUN: lpu-opt --print-op-generic %s | lpu-opt | filecheck %s

// Attributes keep their canonical text.
// CHECK: "test.op"() {expr = #lpu.expr<24 * s18 + 3>, shape = #lpu.shape<[1, s18, 2 * s18 + 1]>, none = #lpu.shape<[]>} : () -> ()
"test.op"() {expr = #lpu.expr<3 + s18 * 24>, shape = #lpu.shape<[1, s18, 2 * s18 + 1]>, none = #lpu.shape<[]>} : () -> ()
// CHECK-NEXT: "test.op"() {ints = #lpu.ints<[0, 2, -1]>, dims = #lpu.dims<[d0 = 3, d1 = s18]>, operand = #lpu.operand<2>, torch = #lpu.torch<"float32">} : () -> ()
"test.op"() {ints = #lpu.ints<[0, 2, -1]>, dims = #lpu.dims<[d0 = 3, d1 = s18]>, operand = #lpu.operand<2>, torch = #lpu.torch<"float32">} : () -> ()
// CHECK-NEXT: "test.op"() {symbols = [#lpu.symbol<"s18", 2, -1, 64>, #lpu.symbol<"u0", 0, 5, 0>]} : () -> ()
"test.op"() {symbols = [#lpu.symbol<"s18", 2, -1, 64>, #lpu.symbol<"u0", 0, 5, 0>]} : () -> ()
// CHECK-NEXT: "test.op"() {mod = #lpu.expr<s0 - 8 * (s0 floordiv 8)>, div = #lpu.expr<((s0 + 7) floordiv 8)>, extremes = #lpu.expr<min(64, max(3, s0))>} : () -> ()
"test.op"() {mod = #lpu.expr<s0 mod 8>, div = #lpu.expr<(s0 + 7) floordiv 8>, extremes = #lpu.expr<min(64, max(s0, 3))>} : () -> ()

// Extents of tensors; layouts of memrefs.
// CHECK-NEXT: %t = "test.op"() : () -> tensor<1x?x24xf32, #lpu.shape<[1, s18, 24]>>
%t = "test.op"() : () -> tensor<1x?x24xf32, #lpu.shape<[1, s18, 24]>>
// CHECK-NEXT: %m = "test.op"() : () -> memref<1x?x24xf32, #lpu.layout<[1, s18, 24], [24 * s18, 24, 1], 0>, "shared_dram">
%m = "test.op"() : () -> memref<1x?x24xf32, #lpu.layout<[1, s18, 24], [24 * s18, 24, 1], 0>, "shared_dram">
// CHECK-NEXT: %n = "test.op"() : () -> memref<?x4xbf16, #lpu.layout<[s18, 4], [1, s18], 5 * s18>, "shared_dram">
%n = "test.op"() : () -> memref<?x4xbf16, #lpu.layout<[s18, 4], [1, s18], 5 * s18>, "shared_dram">

// A remainder; with flags too.
// CHECK-NEXT: %a, %b = "test.op"() : () -> (f32, f32)
%a, %b = "test.op"() : () -> (f32, f32)
// CHECK-NEXT: %r = lpu.remf %a, %b : f32
%r = lpu.remf %a, %b : f32
// CHECK-NEXT: %q = lpu.remf %a, %b fastmath<nnan> : f32
%q = lpu.remf %a, %b fastmath<nnan> : f32

// Calls of PyTorch, on tensors and on memrefs.
// CHECK-NEXT: %x = "test.op"() : () -> tensor<4xf32>
%x = "test.op"() : () -> tensor<4xf32>
// CHECK-NEXT: %v, %i = "lpu.host_call"(%x) <{overload = "aten.sort.default", arguments = {"0" = #lpu.operand<0>, "1" = -1 : i64, dtype = #lpu.torch<"float32">}, reason = "not native"}> : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xi64>)
%v, %i = "lpu.host_call"(%x) <{overload = "aten.sort.default", arguments = {"0" = #lpu.operand<0>, "1" = -1 : i64, dtype = #lpu.torch<"float32">}, reason = "not native"}> : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xi64>)
// CHECK-NEXT: %w = "test.op"() : () -> memref<4xf32, "shared_dram">
%w = "test.op"() : () -> memref<4xf32, "shared_dram">
// CHECK-NEXT: %y = "lpu.host_call"(%w) <{overload = "aten.cat.default", arguments = {"0" = [#lpu.operand<0>, #lpu.operand<0>]}, reason = "not native"}> : (memref<4xf32, "shared_dram">) -> memref<8xf32, "shared_dram">
%y = "lpu.host_call"(%w) <{overload = "aten.cat.default", arguments = {"0" = [#lpu.operand<0>, #lpu.operand<0>]}, reason = "not native"}> : (memref<4xf32, "shared_dram">) -> memref<8xf32, "shared_dram">
