package imagepulljob

// kind is the kind's name.
const kind = "ImagePullJob"
