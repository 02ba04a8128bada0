"""The accelerator as a pure model: graph, lowering, fusion, tiling, placement, execution, replay."""
