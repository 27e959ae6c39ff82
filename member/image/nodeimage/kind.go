package nodeimage

// kind is the kind's name.
const kind = "NodeImage"
