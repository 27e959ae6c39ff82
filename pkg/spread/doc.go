// Package spread divides one number of replicas over the ordered subsets of an object.
//
// It answers one question: this object has so many replicas, these are its subsets, what does each of them get?
// A UnitedDeployment asks it for the subsets of one cluster, the hub asks it for subsets that stand for clusters. Both
// get the same numbers for the same question.
//
// There are two ways to divide, and the subsets themselves choose:
//
//   - By number. Some subsets name their replicas (an integer, or a percentage of the total). The others share what is
//     left evenly, and the odd replicas stay where most replicas are now, so that the fewest pods move.
//   - Elastic. As soon as one subset has a minimum or a maximum, the list is walked in its order: first every subset
//     gets its minimum, while replicas last; then every subset is filled to its maximum.
//
// The package is integers in, integers out: no client, no clock, no state. The same input gives the same output, at
// once and for ever, and dividing again what was just divided changes nothing.
//
// It won't judge an object. Numbers that contradict each other are the business of validation; where such numbers get
// here all the same (a scale request can change the total without touching the subsets), nothing moves and the
// Division says why. It knows of no cluster, no readiness and no budget: how fast a division comes true is for its
// caller to say.
package spread
