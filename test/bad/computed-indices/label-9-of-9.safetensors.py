# Labels of which the third is 9, where there are 9 classes, and one that is ignored.
import samples

samples.write(x=("F32", [4, 4], [1.0]), labels=("I64", [4], [1, -100, 9, 2]))
