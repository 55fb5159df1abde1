// Loops in a program read as they are printed.
// RUN: hyc-opt %s | hyc-opt | FileCheck %s

rank.program @stage0 stage 0 slots 2 {
  rank.arena @activations bytes 1024 record_bytes 512
  rank.func @forward() {
    %whole = rank.at @activations 256 : <8x4xf32>
    // CHECK: rank.repeat 7 attributes {id = "scan"} {
    rank.repeat 7 attributes {id = "scan"} {
      // CHECK-NEXT: rank.at @activations 96 per_slot step -16 : <4xf32>
      %0 = rank.at @activations 96 per_slot step -16 : <4xf32>
    }
    // CHECK: rank.repeat 3 {
    rank.repeat 3 {
      // CHECK-NEXT: rank.at @activations 0 step 16 period 2 : <4xf32>
      // CHECK-NEXT: rank.turn %{{.*}} + 4 step 4 : <8x4xf32> to <4xf32>
      // CHECK-NEXT: rank.turn %{{.*}} + 4 step -4 period 2 : <8x4xf32> to <4xf32>
      %0 = rank.at @activations 0 step 16 period 2 : <4xf32>
      %1 = rank.turn %whole + 4 step 4 : <8x4xf32> to <4xf32>
      %2 = rank.turn %whole + 4 step -4 period 2 : <8x4xf32> to <4xf32>
    }
  }
}
