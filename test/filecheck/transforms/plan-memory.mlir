// RUN: lpu-opt -p plan-memory %s | filecheck %s

// Buffers that live at the same time lie beside each other.
// CHECK-LABEL: func.func @together(
// CHECK-NEXT:   %[[V0:\d+]] = lpu_host.arena <192> lower_bound <192> : memref<192xi8, "shared_dram">
// CHECK-NEXT:   %a = lpu_host.carve %[[V0]] at <128> : memref<192xi8, "shared_dram"> -> memref<16xf32, "shared_dram">
// CHECK-NEXT:   %b = lpu_host.carve %[[V0]] at <0> : memref<192xi8, "shared_dram"> -> memref<32xf32, "shared_dram">
// CHECK-NEXT:   "test.op"(%a, %b) : (memref<16xf32, "shared_dram">, memref<32xf32, "shared_dram">) -> ()
// CHECK-NEXT:   func.return
func.func @together() {
  %a = lpu_host.alloc : memref<16xf32, "shared_dram">
  %b = lpu_host.alloc : memref<32xf32, "shared_dram">
  "test.op"(%a, %b) : (memref<16xf32, "shared_dram">, memref<32xf32, "shared_dram">) -> ()
  func.return
}

// A third takes the place of one that is no longer used.
// CHECK-LABEL: func.func @reuse(
// CHECK-NEXT:   %[[V0:\d+]] = lpu_host.arena <128> lower_bound <128> : memref<128xi8, "shared_dram">
// CHECK-NEXT:   %a = lpu_host.carve %[[V0]] at <0> : memref<128xi8, "shared_dram"> -> memref<16xf32, "shared_dram">
// CHECK-NEXT:   "test.op"(%a) : (memref<16xf32, "shared_dram">) -> ()
// CHECK-NEXT:   %b = lpu_host.carve %[[V0]] at <64> : memref<128xi8, "shared_dram"> -> memref<16xf32, "shared_dram">
// CHECK-NEXT:   "test.op"(%a, %b) : (memref<16xf32, "shared_dram">, memref<16xf32, "shared_dram">) -> ()
// CHECK-NEXT:   %c = lpu_host.carve %[[V0]] at <0> : memref<128xi8, "shared_dram"> -> memref<16xf32, "shared_dram">
// CHECK-NEXT:   "test.op"(%b, %c) : (memref<16xf32, "shared_dram">, memref<16xf32, "shared_dram">) -> ()
// CHECK-NEXT:   func.return
func.func @reuse() {
  %a = lpu_host.alloc : memref<16xf32, "shared_dram">
  "test.op"(%a) : (memref<16xf32, "shared_dram">) -> ()
  %b = lpu_host.alloc : memref<16xf32, "shared_dram">
  "test.op"(%a, %b) : (memref<16xf32, "shared_dram">, memref<16xf32, "shared_dram">) -> ()
  %c = lpu_host.alloc : memref<16xf32, "shared_dram">
  "test.op"(%b, %c) : (memref<16xf32, "shared_dram">, memref<16xf32, "shared_dram">) -> ()
  func.return
}

// Sizes are rounded up: every buffer starts at a multiple of 64 bytes.
// CHECK-LABEL: func.func @alignment(
// CHECK-NEXT:   %[[V0:\d+]] = lpu_host.arena <256> lower_bound <256> : memref<256xi8, "shared_dram">
// CHECK-NEXT:   %a = lpu_host.carve %[[V0]] at <128> : memref<256xi8, "shared_dram"> -> memref<3xi8, "shared_dram">
// CHECK-NEXT:   %b = lpu_host.carve %[[V0]] at <0> : memref<256xi8, "shared_dram"> -> memref<65xi1, "shared_dram">
// CHECK-NEXT:   %c = lpu_host.carve %[[V0]] at <192> : memref<256xi8, "shared_dram"> -> memref<1xf64, "shared_dram">
// CHECK-NEXT:   "test.op"(%a, %b, %c) : (memref<3xi8, "shared_dram">, memref<65xi1, "shared_dram">, memref<1xf64, "shared_dram">) -> ()
// CHECK-NEXT:   func.return
func.func @alignment() {
  %a = lpu_host.alloc : memref<3xi8, "shared_dram">
  %b = lpu_host.alloc : memref<65xi1, "shared_dram">
  %c = lpu_host.alloc : memref<1xf64, "shared_dram">
  "test.op"(%a, %b, %c) : (memref<3xi8, "shared_dram">, memref<65xi1, "shared_dram">, memref<1xf64, "shared_dram">) -> ()
  func.return
}

// A view keeps its buffer alive.
// CHECK-LABEL: func.func @view(
// CHECK-NEXT:   %[[V0:\d+]] = lpu_host.arena <128> lower_bound <128> : memref<128xi8, "shared_dram">
// CHECK-NEXT:   %a = lpu_host.carve %[[V0]] at <0> : memref<128xi8, "shared_dram"> -> memref<16xf32, "shared_dram">
// CHECK-NEXT:   %v = lpu_host.view %a : memref<16xf32, "shared_dram"> -> memref<4x4xf32, "shared_dram">
// CHECK-NEXT:   "test.op"(%a) : (memref<16xf32, "shared_dram">) -> ()
// CHECK-NEXT:   %b = lpu_host.carve %[[V0]] at <64> : memref<128xi8, "shared_dram"> -> memref<16xf32, "shared_dram">
// CHECK-NEXT:   "test.op"(%b) : (memref<16xf32, "shared_dram">) -> ()
// CHECK-NEXT:   "test.op"(%v) : (memref<4x4xf32, "shared_dram">) -> ()
// CHECK-NEXT:   func.return
func.func @view() {
  %a = lpu_host.alloc : memref<16xf32, "shared_dram">
  %v = lpu_host.view %a : memref<16xf32, "shared_dram"> -> memref<4x4xf32, "shared_dram">
  "test.op"(%a) : (memref<16xf32, "shared_dram">) -> ()
  %b = lpu_host.alloc : memref<16xf32, "shared_dram">
  "test.op"(%b) : (memref<16xf32, "shared_dram">) -> ()
  "test.op"(%v) : (memref<4x4xf32, "shared_dram">) -> ()
  func.return
}

// What nobody uses takes no space; without buffers there is no arena.
// CHECK-LABEL: func.func @unused(
// CHECK-NEXT:   "test.op"(%x) : (memref<16xf32, "shared_dram">) -> ()
// CHECK-NEXT:   func.return
func.func @unused(%x: memref<16xf32, "shared_dram">) {
  %a = lpu_host.alloc : memref<16xf32, "shared_dram">
  "test.op"(%x) : (memref<16xf32, "shared_dram">) -> ()
  func.return
}

// CHECK-LABEL: func.func @use_in_a_nest(
// CHECK-NEXT:   %[[V0:\d+]] = lpu_host.arena <128> lower_bound <128> : memref<128xi8, "shared_dram">
// CHECK-NEXT:   %a = lpu_host.carve %[[V0]] at <0> : memref<128xi8, "shared_dram"> -> memref<16xf32, "shared_dram">
// CHECK-NEXT:   lpu_loop.nest [d0 = 16] outs(%a : memref<16xf32, "shared_dram">) {
// CHECK-NEXT:     %[[V1:\d+]] = lpu_loop.load %x[d0] : memref<16xf32, "shared_dram">
// CHECK-NEXT:     lpu_loop.store "replace" %[[V1]], %a[d0] : f32, memref<16xf32, "shared_dram">
// CHECK-NEXT:   }
// CHECK-NEXT:   %b = lpu_host.carve %[[V0]] at <64> : memref<128xi8, "shared_dram"> -> memref<16xf32, "shared_dram">
// CHECK-NEXT:   lpu_loop.nest [d0 = 16] outs(%b : memref<16xf32, "shared_dram">) {
// CHECK-NEXT:     %[[V2:\d+]] = lpu_loop.load %a[d0] : memref<16xf32, "shared_dram">
// CHECK-NEXT:     lpu_loop.store "replace" %[[V2]], %b[d0] : f32, memref<16xf32, "shared_dram">
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return
func.func @use_in_a_nest(%x: memref<16xf32, "shared_dram">) {
  %a = lpu_host.alloc : memref<16xf32, "shared_dram">
  lpu_loop.nest [d0 = 16] outs(%a : memref<16xf32, "shared_dram">) {
    %0 = lpu_loop.load %x[d0] : memref<16xf32, "shared_dram">
    lpu_loop.store "replace" %0, %a[d0] : f32, memref<16xf32, "shared_dram">
  }
  %b = lpu_host.alloc : memref<16xf32, "shared_dram">
  lpu_loop.nest [d0 = 16] outs(%b : memref<16xf32, "shared_dram">) {
    %1 = lpu_loop.load %a[d0] : memref<16xf32, "shared_dram">
    lpu_loop.store "replace" %1, %b[d0] : f32, memref<16xf32, "shared_dram">
  }
  func.return
}

// Known sizes first, at the bottom; above them what depends on symbols. %c is larger than %a,
// and gets a place of its own.
// The lower bound is the most that is live at one moment, for the likely value 8.
// CHECK-LABEL: func.func @symbolic(
// CHECK-NEXT:   %[[V0:\d+]] = lpu_host.arena <192 * s0 + 64> lower_bound <1088> : memref<?xi8, #lpu.layout<[192 * s0 + 64], [1], 0>, "shared_dram">
// CHECK-NEXT:   %a = lpu_host.carve %[[V0]] at <64> : memref<?xi8, #lpu.layout<[192 * s0 + 64], [1], 0>, "shared_dram"> -> memref<?x16xf32, #lpu.layout<[s0, 16], [16, 1], 0>, "shared_dram">
// CHECK-NEXT:   %b = lpu_host.carve %[[V0]] at <0> : memref<?xi8, #lpu.layout<[192 * s0 + 64], [1], 0>, "shared_dram"> -> memref<16xf32, "shared_dram">
// CHECK-NEXT:   "test.op"(%a, %b) : (memref<?x16xf32, #lpu.layout<[s0, 16], [16, 1], 0>, "shared_dram">, memref<16xf32, "shared_dram">) -> ()
// CHECK-NEXT:   %c = lpu_host.carve %[[V0]] at <64 * s0 + 64> : memref<?xi8, #lpu.layout<[192 * s0 + 64], [1], 0>, "shared_dram"> -> memref<?x32xf32, #lpu.layout<[s0, 32], [32, 1], 0>, "shared_dram">
// CHECK-NEXT:   "test.op"(%c, %b) : (memref<?x32xf32, #lpu.layout<[s0, 32], [32, 1], 0>, "shared_dram">, memref<16xf32, "shared_dram">) -> ()
// CHECK-NEXT:   "test.op"(%c) : (memref<?x32xf32, #lpu.layout<[s0, 32], [32, 1], 0>, "shared_dram">) -> ()
// CHECK-NEXT:   func.return
func.func @symbolic() attributes {lpu.symbols = [#lpu.symbol<"s0", 1, -1, 8>]} {
  %a = lpu_host.alloc : memref<?x16xf32, #lpu.layout<[s0, 16], [16, 1], 0>, "shared_dram">
  %b = lpu_host.alloc : memref<16xf32, "shared_dram">
  "test.op"(%a, %b) : (memref<?x16xf32, #lpu.layout<[s0, 16], [16, 1], 0>, "shared_dram">, memref<16xf32, "shared_dram">) -> ()
  %c = lpu_host.alloc : memref<?x32xf32, #lpu.layout<[s0, 32], [32, 1], 0>, "shared_dram">
  "test.op"(%c, %b) : (memref<?x32xf32, #lpu.layout<[s0, 32], [32, 1], 0>, "shared_dram">, memref<16xf32, "shared_dram">) -> ()
  "test.op"(%c) : (memref<?x32xf32, #lpu.layout<[s0, 32], [32, 1], 0>, "shared_dram">) -> ()
  func.return
}

// Symbolic sizes: %c moves in where %a was, for it is never larger; %b stays in between.
// CHECK-LABEL: func.func @symbolic_turns(
// CHECK-NEXT:   %[[V0:\d+]] = lpu_host.arena <128 * s0 + 64 * s1>
// CHECK-NEXT:   %a = lpu_host.carve %[[V0]] at <0>
// CHECK-NEXT:   %b = lpu_host.carve %[[V0]] at <128 * s0>
// CHECK-NEXT:   "test.op"(%a, %b)
// CHECK-NEXT:   %c = lpu_host.carve %[[V0]] at <0>
// CHECK-NEXT:   "test.op"(%b, %c)
// CHECK-NEXT:   func.return
func.func @symbolic_turns() attributes {lpu.symbols = [#lpu.symbol<"s0", 1, -1, 8>, #lpu.symbol<"s1", 1, -1, 8>]} {
  %a = lpu_host.alloc : memref<?x32xf32, #lpu.layout<[s0, 32], [32, 1], 0>, "shared_dram">
  %b = lpu_host.alloc : memref<?x16xf32, #lpu.layout<[s1, 16], [16, 1], 0>, "shared_dram">
  "test.op"(%a, %b) : (memref<?x32xf32, #lpu.layout<[s0, 32], [32, 1], 0>, "shared_dram">, memref<?x16xf32, #lpu.layout<[s1, 16], [16, 1], 0>, "shared_dram">) -> ()
  %c = lpu_host.alloc : memref<?x16xf32, #lpu.layout<[s0, 16], [16, 1], 0>, "shared_dram">
  "test.op"(%b, %c) : (memref<?x16xf32, #lpu.layout<[s1, 16], [16, 1], 0>, "shared_dram">, memref<?x16xf32, #lpu.layout<[s0, 16], [16, 1], 0>, "shared_dram">) -> ()
  func.return
}

// %c lies over what %a no longer needs, %d above what is still live.
// CHECK-LABEL: func.func @gap(
// CHECK-NEXT:   %[[V0:\d+]] = lpu_host.arena <256> lower_bound <256> : memref<256xi8, "shared_dram">
// CHECK-NEXT:   %a = lpu_host.carve %[[V0]] at <0> : memref<256xi8, "shared_dram"> -> memref<16xf32, "shared_dram">
// CHECK-NEXT:   %b = lpu_host.carve %[[V0]] at <128> : memref<256xi8, "shared_dram"> -> memref<16xf32, "shared_dram">
// CHECK-NEXT:   "test.op"(%a, %b) : (memref<16xf32, "shared_dram">, memref<16xf32, "shared_dram">) -> ()
// CHECK-NEXT:   %c = lpu_host.carve %[[V0]] at <0> : memref<256xi8, "shared_dram"> -> memref<32xf32, "shared_dram">
// CHECK-NEXT:   %d = lpu_host.carve %[[V0]] at <192> : memref<256xi8, "shared_dram"> -> memref<16xf32, "shared_dram">
// CHECK-NEXT:   "test.op"(%b, %c, %d) : (memref<16xf32, "shared_dram">, memref<32xf32, "shared_dram">, memref<16xf32, "shared_dram">) -> ()
// CHECK-NEXT:   func.return
func.func @gap() {
  %a = lpu_host.alloc : memref<16xf32, "shared_dram">
  %b = lpu_host.alloc : memref<16xf32, "shared_dram">
  "test.op"(%a, %b) : (memref<16xf32, "shared_dram">, memref<16xf32, "shared_dram">) -> ()
  %c = lpu_host.alloc : memref<32xf32, "shared_dram">
  %d = lpu_host.alloc : memref<16xf32, "shared_dram">
  "test.op"(%b, %c, %d) : (memref<16xf32, "shared_dram">, memref<32xf32, "shared_dram">, memref<16xf32, "shared_dram">) -> ()
  func.return
}

// CHECK-LABEL: func.func @empty(
// CHECK-NEXT:   %[[V0:\d+]] = lpu_host.arena <64> lower_bound <64> : memref<64xi8, "shared_dram">
// CHECK-NEXT:   %a = lpu_host.carve %[[V0]] at <0> : memref<64xi8, "shared_dram"> -> memref<0x4xf32, "shared_dram">
// CHECK-NEXT:   %b = lpu_host.carve %[[V0]] at <0> : memref<64xi8, "shared_dram"> -> memref<16xf32, "shared_dram">
// CHECK-NEXT:   "test.op"(%a, %b) : (memref<0x4xf32, "shared_dram">, memref<16xf32, "shared_dram">) -> ()
// CHECK-NEXT:   func.return
func.func @empty() {
  %a = lpu_host.alloc : memref<0x4xf32, "shared_dram">
  %b = lpu_host.alloc : memref<16xf32, "shared_dram">
  "test.op"(%a, %b) : (memref<0x4xf32, "shared_dram">, memref<16xf32, "shared_dram">) -> ()
  func.return
}
