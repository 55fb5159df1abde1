"""What TensorBoard's own readers find in a folder of events: `tag step value`, a line each, in its order. 77: this Python has
no TensorBoard.

    read_events.py FOLDER

There are two: of scripts (EventAccumulator), and of the page. They have to agree.
"""

import sys

try:
    from tensorboard.backend.event_processing import event_accumulator, plugin_event_accumulator
    from tensorboard.util import tensor_util
except ImportError:
    sys.exit(77)


def main() -> None:
    everything = {event_accumulator.SCALARS: 0, event_accumulator.TENSORS: 0}
    scripts = event_accumulator.EventAccumulator(sys.argv[1], size_guidance=everything).Reload()
    page = plugin_event_accumulator.EventAccumulator(sys.argv[1], tensor_size_guidance={"scalars": 0}).Reload()
    assert scripts.Tags()["scalars"] == page.Tags()["tensors"], (scripts.Tags(), page.Tags())
    for tag in page.Tags()["tensors"]:
        assert page.SummaryMetadata(tag).plugin_data.plugin_name == "scalars", tag
        shown = [(event.step, float(tensor_util.make_ndarray(event.tensor_proto))) for event in page.Tensors(tag)]
        assert repr(shown) == repr([(event.step, event.value) for event in scripts.Scalars(tag)]), tag
        for step, value in shown:
            print(tag, step, repr(value))


main()
