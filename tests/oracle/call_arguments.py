"""Arguments of public functions, by parameter: Python text that is evaluated with either library as ``tf``.

``f``, ``i``, ``u``, ``b``, ``s`` and ``c`` are arrays of the dims given: floats, ints, uint8, bools, strings and complex numbers.
"""

ANY = "f(3)|f(2,3)|f(3,3)|f(2,3)|i(2,3)|i(3)|f()|f(2,2,3)|c(2,2)|b(2,3)|s(3)|u(2,2)|f(0,3)|np.float64(f(2,3))|f(1,3)"
FLOATS = "f(2,3)|f(3,3)|f(3)|f(2,3,3)|f()"
IMAGE = "f(4,5,3)|u(4,5,3)|f(2,4,5,3)|f(6,4,1)"
FLAGS = "True|False"
INDICES = "i(3)|i(2)|[0, 1, 1]|[0, 0, 2]|i(2,1)|[[0, 1], [1, 0]]"
SPARSE = "tf.sparse.from_dense([[1, 0, 2], [0, 3, 0]])|tf.sparse.from_dense([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]])|tf.sparse.from_dense([0.0, 1.5])"
RAGGED = "tf.ragged.constant([[1, 2], [3]])|tf.ragged.constant([[1.0], [], [2.0, 3.0]])"
DTYPES = "tf.float32|tf.int32|tf.float64|tf.int64|'float32'|tf.bool|tf.complex64|tf.uint8|tf.half|tf.string"
SHAPES = "[2, 3]|[3]|[]|(3, 3)|i(2)|[1, 2, 3]|tf.TensorShape([3])|[2, -1]"
FORMATS = "'NHWC'|'NCHW'|'NWC'|'NDHWC'|None"

POOLS = {
    "axis axes reduction_dimension dim concat_dim": "0|1|-1|None|[0]|[-1, 0]|-2|2",
    "keepdims transpose_a transpose_b adjoint_a adjoint_b adjoint exclusive reverse stable lower upper full_matrices": FLAGS,
    "use_norm binary_output sorted unique range_given narrow_range signed_input normalize conjugate eigvals_only fast": FLAGS,
    "compute_uv antialias preserve_aspect_ratio clip_boxes pad_per_class saturate centered normalized overlapping": FLAGS,
    "drop_remainder return_index_map logits_time_major include_batch_in_index log_input compute_full_loss periodic": FLAGS,
    "pseudo_random skip_empty rightmost approximate aminusb strict shortest scientific pad pad_end output_is_sparse": FLAGS,
    "merge_repeated decreasing perturb_singular transpose_rhs conjugate_rhs partial_pivoting validate_args": FLAGS,
    "replace_global deterministic little_endian expand_composites check_types returned endpoint retstep deg": FLAGS,
    "increasing equal_nan": FLAGS,
    "dtype out_type output_type Tout out_idx type index_type cast_type T output_dtype type_value dtype_hint": DTYPES,
    "newshape tf_type arg1 arg2 type1 type2": DTYPES,
    "shape new_shape output_shape noise_shape batch_shape dims size crop_size target_shape dense_shape": SHAPES,
    "multiples reps": "[2, 1]|[2]|2|i(2)|[1, 0]",
    "strides ksize ksizes stride rates dilations window_shape rate block_size window_size": "1|2|[1, 1, 1, 1]|[1, 2, 2, 1]|2|[2, 2]|3",
    "padding": "'SAME'|'VALID'|'same'|[[0, 0], [1, 1], [0, 1], [0, 0]]",
    "data_format": FORMATS,
    "seed": "1|[1, 2]|i(2)|None|(3, 4)",
    "alg": "'auto_select'|'philox'|1",
    "image images img1 img2": IMAGE,
    "filters filter": "f(2,2,3,2)|f(1,1,3,1)|f(2,3,2)|f(2,2,3)|f(2,2,1,4)",
    "depthwise_filter": "f(2,2,3,2)",
    "pointwise_filter": "f(1,1,6,2)",
    "segment_ids": "[0, 0, 1]|[0, 1]|i(3)|[0, 0, 2]|i(2,3)",
    "num_segments num depth num_classes num_rows num_columns k n N M num_buckets max_output_size num_samples nbins minlength"
    " maxlength max_total_size max_output_size_per_class channels num_partitions top_paths beam_width num_results ndim"
    " maxlen fft_length frame_length frame_step window_length num_lower num_upper block_shape rank length fixed_length"
    " width precision target_height target_width offset_height offset_width repeats num_cols num_bits ngram_width ddof": "2|3|1|0|4|-1|i()",
    "indices positions ids": INDICES,
    "labels": "i(3)|i(2)|f(2,3)|i(2,3)",
    "logits": "f(2,3)|f(3)|f(2,2,3)",
    "data": ANY,
    "updates": "f(2)|f(3)|f(2,3)|i(3)",
    "condition cond pred mask to_retain": "b(3)|b(2,3)|True|b()|[True, False]",
    "message template": "'wrong'|None",
    "perm": "[1, 0]|[0, 1]|None|[2, 0, 1]|i(2)",
    "paddings pad_width crops": "[[1, 1], [0, 2]]|[[0, 1]]|[[0, 0], [0, 0]]|i(2,2)",
    "mode": "'CONSTANT'|'REFLECT'|'SYMMETRIC'|'constant'|'clip'",
    "boxes": "f(3,4)|f(2,3,4)|np.abs(f(2,1,4))",
    "scores": "f(3)|f(2,3)",
    "sp_input sp_a sp_b sp_ids sp_inputs": SPARSE,
    "rt_input ragged": RAGGED,
    "contents bytes": "tf.io.encode_png(u(3,4,3))|tf.io.encode_jpeg(u(8,8,3))|'abc'|b'\\x00\\x01'",
    "unit": "'BYTE'|'UTF8_CHAR'",
    "errors": "'strict'|'replace'|'ignore'",
    "input_encoding output_encoding encoding": "'UTF-8'|'UTF-16-BE'|'utf-8'|''",
    "pattern": "'a+'|'.'|'(b)'",
    "rewrite separator delimiter sep": "''|'-'|'x'",
    "equation subscripts": "'ij,jk->ik'|'ij->ji'|'i,i->'|'...i->...'",
    "method": "'bilinear'|'nearest'|'bicubic'|'area'|'farmhash64'",
    "side": "'left'|'right'",
    "direction": "'ASCENDING'|'DESCENDING'",
    "bad_indices_policy": "''|'ERROR'|'IGNORE'",
    "ord": "'euclidean'|1|2|np.inf|'fro'|1.5",
    "norm": "None|'ortho'",
    "window_fn": "tf.signal.hann_window|None",
    "fn func op true_fn false_fn body": "tf.negative|(lambda x: x + x)|(lambda a, x: a)",
    "elems": "f(3)|f(2,3)|i(3)|(f(3), i(3))",
    "structure nest1 nest2 seq": "[1, 2]|{'a': 1, 'b': f(2)}|(f(2), [i(3)])|3",
    "diagonals": "f(3,3)|f(2,3,3)",
    "maxval max high limit stop end": "3.0|5|10|f()",
    "minval min low start": "0|0.0|1|-2.0",
    "mean stddev lam alpha beta gamma delta epsilon factor contrast_factor max_delta clip_norm iou_threshold": "0.5|1.0|2.0|f()",
    "variance_epsilon rtol atol gain stddevs probs": "0.1|1e-3|f(3)",
    "minvals": "-1.0",
    "maxvals": "1.0",
    "values": "f(3)|f(2,3)|[f(3), f(3)]|[i(2,2), i(1,2)]|i(3)",
    "inputs arrays tup arys args t_list tensors": "[f(2,3), f(2,3)]|[f(3), f(3)]|f(2,3)|[i(2,2), i(2,2)]|[f(2,3), f(3,2)]",
    "rhs": "f(3,2)|f(2,3,2)|f(3,1)",
    "matrix chol": "f(3,3)+3*np.eye(3,dtype='f')|f(2,3,3)",
}

# Functions whose arguments hang together: how one calls them.
CALLS = """
nn.conv2d(f(2,5,6,3), f(2,2,3,4), [1, 2, 2, 1], 'SAME')|nn.conv2d(f(1,6,6,4), f(3,3,2,6), 1, 'VALID', dilations=2)
nn.conv1d(f(2,6,3), f(2,3,4), 2, 'SAME')|nn.conv3d(f(1,3,4,4,2), f(2,2,2,2,3), [1]*5, 'VALID')
nn.depthwise_conv2d(f(2,5,6,3), f(2,2,3,2), [1, 1, 1, 1], 'SAME')|nn.convolution(f(2,5,6,3), f(2,2,3,4), strides=2, padding='SAME')
nn.separable_conv2d(f(2,5,6,3), f(2,2,3,2), f(1,1,6,4), [1, 1, 1, 1], 'SAME')|nn.atrous_conv2d(f(2,5,6,3), f(2,2,3,4), 2, 'SAME')
nn.conv2d_transpose(f(2,3,3,4), f(2,2,3,4), [2, 6, 6, 3], 2)|nn.conv1d_transpose(f(2,3,4), f(2,3,4), [2, 6, 3], 2)
nn.conv3d_transpose(f(1,2,2,2,2), f(2,2,2,3,2), [1, 4, 4, 4, 3], 2)|nn.max_pool(f(2,5,6,3), 2, 2, 'SAME')
nn.max_pool2d(f(2,5,6,3), 2, 1, 'VALID')|nn.avg_pool2d(f(2,5,6,3), [2, 3], 2, 'SAME')|nn.avg_pool(f(2,5,6,3), 2, 2, 'SAME')
nn.max_pool1d(f(2,6,3), 2, 2, 'SAME')|nn.avg_pool1d(f(2,6,3), 2, 1, 'VALID')|nn.max_pool3d(f(1,4,4,4,2), 2, 2, 'SAME')
nn.avg_pool3d(f(1,4,4,4,2), 2, 2, 'VALID')|nn.pool(f(2,5,6,3), [2, 2], 'MAX')|nn.max_pool_with_argmax(f(2,5,6,3), 2, 2, 'SAME')
nn.dilation2d(f(2,5,6,3), f(2,2,3), [1]*4, 'SAME', 'NHWC', [1]*4)|nn.erosion2d(f(2,5,6,3), f(2,2,3), [1]*4, 'SAME', 'NHWC', [1]*4)
nn.fractional_avg_pool(f(1,6,6,1), [1.0, 1.4, 1.4, 1.0], seed=1)|nn.fractional_max_pool(f(1,6,6,1), [1.0, 1.4, 1.4, 1.0], seed=1)
nn.ctc_loss(i(2,2)+1, f(4,2,5), [2, 1], [4, 3], blank_index=0)|nn.ctc_greedy_decoder(f(4,2,5), [4, 3])
nn.ctc_beam_search_decoder(f(4,2,5), [4, 3], 3)|nn.ctc_unique_labels([[1, 2], [2, 2]])|nn.collapse_repeated([[1, 1, 2]], [3])
nn.batch_normalization(f(2,3), f(3), np.abs(f(3)), f(3), f(3), 1e-3)|nn.moments(f(2,3), [0])|nn.weighted_moments(f(2,3), [0], f(2,3))
nn.sigmoid_cross_entropy_with_logits(f(2,3), f(2,3))|nn.softmax_cross_entropy_with_logits(f(2,3), f(2,3))|nn.lrn(f(1,2,2,4), 1)
nn.sparse_softmax_cross_entropy_with_logits(i(2), f(2,3))|nn.weighted_cross_entropy_with_logits(f(2,3), f(2,3), 2.0)
nn.embedding_lookup(f(4,2), [0, 3])|nn.bias_add(f(2,3), f(3))|nn.dropout(f(2,3), 0.5, seed=1)|nn.normalize_moments(2.0, f(3), f(3), None)
nn.embedding_lookup_sparse(f(4,2), tf.sparse.from_dense([[1, 0, 2], [0, 3, 0]]), None)|nn.in_top_k([1, 0], f(2,3), 1)
nn.depth_to_space(f(1,2,2,4), 2)|nn.space_to_depth(f(1,4,4,2), 2)|nn.space_to_batch(f(1,4,4,1), [2, 2], [[0, 0], [0, 0]])
nn.experimental.stateless_dropout(f(2,3), 0.5, [1, 2])|nn.local_response_normalization(f(1,2,2,4))
nn.batch_norm_with_global_normalization(f(1,2,2,3), f(3), np.abs(f(3)), f(3), f(3), 1e-3, True)
batch_to_space(f(4,2,2,1), [2, 2], [[0, 0], [0, 0]])|space_to_batch_nd(f(1,4,4,1), [2, 2], [[0, 0], [0, 0]])|einsum('ij,jk->ik', f(2,3), f(3,2))
reverse_sequence(f(2,3), [1, 2], 1)|extract_volume_patches(f(1,4,4,4,1), [1,2,2,2,1], [1]*5, 'VALID')|tensordot(f(2,3), f(3,2), 1)
scatter_nd([[0], [2]], f(2), [4])|tensor_scatter_nd_add(f(4), [[0], [2]], f(2))|tensor_scatter_nd_update(f(4), [[0], [2]], f(2))
tensor_scatter_nd_max(f(4), [[0], [2]], f(2))|gather_nd(f(2,3), [[0, 1]])|gather(f(2,3), [1, 0], axis=1)|gather(f(2,3), [[0], [2]], batch_dims=1)
dynamic_partition(f(3), [0, 1, 0], 2)|dynamic_stitch([[0, 2], [1]], [f(2), f(1)])|boolean_mask(f(2,3), [True, False])
slice(f(2,3), [0, 1], [2, 1])|strided_slice(f(2,3), [0, 0], [2, 3], [1, 2])|split(f(2,4), 2, 1)|split(f(2,3), [1, 2], -1)|one_hot([0, 2], 3)
range(1, 7, 2)|linspace(0.0, 1.0, 5)|clip_by_value(f(2,3), -0.5, 0.5)|searchsorted([1.0, 2.0, 3.0], [1.5, 2.0])|unravel_index([2, 5], [2, 3])
where(b(2,3), f(2,3), 0.0)|meshgrid(f(2), f(3))|stack([f(3), f(3)])|concat([f(2,3), f(1,3)], 0)|pad(f(2,3), [[1, 0], [0, 2]])|eye(2, 3)
foldl(lambda a, x: a + x, f(3))|foldr(lambda a, x: a + x, f(3))|scan(lambda a, x: a + x, f(3))|map_fn(lambda x: x * 2, f(2,3))
vectorized_map(lambda x: x * 2, f(2,3))|while_loop(lambda x: x < 3, lambda x: (x + 1,), [0])|cond(b(), lambda: f(2), lambda: 2 * f(2))
case([(b(), lambda: 1)], default=lambda: 2)|switch_case(i(), [lambda: 1, lambda: 2])|histogram_fixed_width(f(5), [-1.0, 1.0], 3)
edit_distance(tf.sparse.from_dense([['a', 'b']]), tf.sparse.from_dense([['a', 'c']]))|sequence_mask([1, 3], 4)|tile(f(2,3), [1, 2])
linalg.lu_solve(*tf.linalg.lu(f(3,3)), f(3,2))|linalg.lu_reconstruct(*tf.linalg.lu(f(3,3)))|linalg.lu_matrix_inverse(*tf.linalg.lu(f(3,3)))
linalg.solve(f(3,3), f(3,2))|linalg.triangular_solve(f(3,3), f(3,2))|linalg.lstsq(f(3,2), f(3,2))|linalg.cholesky_solve(spd(3), f(3,1))
linalg.cholesky(spd(3))|linalg.logdet(spd(3))|linalg.sqrtm(spd(3))|linalg.logm(spd(3)+0j)|linalg.tridiagonal_solve(f(3,3), f(3))
linalg.tridiagonal_matmul(f(3,3), f(3,2), 'compact')|linalg.banded_triangular_solve(f(2,3), f(3,1))|linalg.eigh_tridiagonal(f(3), f(2))
linalg.matvec(f(2,3), f(3))|linalg.cross(f(3), f(3))|linalg.diag(f(2,3), k=1)|linalg.diag_part(f(3,3), k=-1)|linalg.set_diag(f(3,3), f(3))
linalg.band_part(f(3,3), 1, 0)|math.betainc(1.0, 2.0, 0.5)|math.polyval([1.0, f(3)], f(3))|math.top_k(f(2,4), 2)|math.bincount([1, 1, 3])
math.confusion_matrix([0, 1], [1, 1])|math.unsorted_segment_sum(f(3), [0, 1, 0], 2)|math.segment_mean(f(3,2), [0, 0, 1])|math.ndtri(0.3)
sparse.segment_sum(f(4,2), [0, 2, 3], [0, 0, 1])|sparse.segment_mean(f(4,2), [0, 2, 3], [0, 0, 1])|sparse.reorder(sp())|sparse.to_dense(sp())
sparse.sparse_dense_matmul(sp(), f(3,2))|sparse.add(sp(), sp())|sparse.concat(0, [sp(), sp()])|sparse.reduce_sum(sp(), 1)|sparse.transpose(sp())
sparse.slice(sp(), [0, 1], [2, 2])|sparse.reshape(sp(), [3, 2])|sparse.split(sp(), 2, 1)|sparse.softmax(sp())|sparse.fill_empty_rows(sp(), 0.0)
sparse.mask(tf.IndexedSlices(f(2,2), i(2)), [0])|sparse.retain(sp(), [True, False, True])|sparse.map_values(tf.add, sp(), 1.0)
ragged.range([1, 3])|ragged.stack([f(3), f(2)])|ragged.constant([[1], [2, 3]])|ragged.boolean_mask(f(2,2), [[True, False], [True, True]])
ragged.cross([rt(), rt()])|ragged.map_flat_values(tf.negative, rt())|ragged.segment_ids_to_row_splits([0, 0, 2])
ragged.row_splits_to_segment_ids([0, 2, 3])|ragged.stack_dynamic_partitions(f(3), [0, 1, 0], 2)|strings.substr('hello', 1, 2)
strings.join(['a', s(2)], '-')|strings.split(['a b', 'c'])|strings.regex_replace(s(2), 'a', 'b')|strings.regex_full_match(s(2), 'a.*')
strings.ngrams(s(3), 2)|strings.to_hash_bucket_strong(s(2), 5, [1, 2])|strings.unicode_decode(s(2), 'UTF-8')
strings.unicode_encode([[72, 105]], 'UTF-8')|strings.unicode_transcode(s(2), 'UTF-8', 'UTF-16-BE')
strings.unicode_split_with_offsets(s(2), 'UTF-8')|strings.reduce_join(s(2,2), 0)|strings.unsorted_segment_join(s(3), [0, 1, 0], 2)
strings.format('{} and {}', (f(2), i(2)))|strings.to_number(['1.5', '2'])|strings.unicode_script([72, 8364])|strings.length(s(2))
strings.lower('ABC')|io.decode_raw(['abcd'], tf.uint8)|io.decode_csv(['1,2.5'], [[0], [0.0]])
io.parse_tensor(tf.io.serialize_tensor(f(2)), tf.float32)|io.decode_base64(tf.io.encode_base64('abc'))
io.parse_example([b''], {'a': tf.io.FixedLenFeature([], tf.float32, 1.0)})|io.parse_single_example(b'', {'a': tf.io.VarLenFeature(tf.int64)})
image.crop_and_resize(f(1,4,5,3), [[0.0, 0.0, 1.0, 1.0]], [0], [2, 2])|image.crop_to_bounding_box(f(4,5,3), 1, 1, 2, 2)
image.pad_to_bounding_box(f(4,5,3), 1, 1, 6, 7)|image.resize(f(4,5,3), [2, 3])|image.resize_with_crop_or_pad(f(4,5,3), 3, 6)
image.resize_with_pad(f(4,5,3), 3, 6)|image.extract_patches(f(1,4,5,3), [1,2,2,1], [1,1,1,1], [1]*4, 'VALID')|image.central_crop(f(4,5,3), 0.5)
image.extract_glimpse(f(1,6,6,3), [2, 2], [[0.0, 0.0]])|image.draw_bounding_boxes(f(1,4,5,3), [[[0.1, 0.1, 0.9, 0.9]]], [[1.0, 0.0, 0.0]])
image.non_max_suppression(np.abs(f(3,4)), f(3), 2)|image.non_max_suppression_with_scores(np.abs(f(3,4)), f(3), 2)
image.ssim(f(1,12,12,3), f(1,12,12,3), 1.0)|image.combined_non_max_suppression(np.abs(f(1,3,1,4)), f(1,3,2), 2, 3)
image.non_max_suppression_overlaps(np.abs(f(3,3)), f(3), 2)|image.stateless_random_crop(f(4,5,3), [2, 2, 3], [1, 2])
image.random_crop(f(4,5,3), [2, 2, 3], 1)|image.stateless_sample_distorted_bounding_box([6, 6, 3], [[[0.0, 0.0, 1.0, 1.0]]], [1, 2])
image.psnr(f(4,5,3), f(4,5,3), 1.0)|image.convert_image_dtype(u(2,2,3), tf.float32)|image.rot90(f(4,5,3), 1)|image.adjust_hue(f(4,5,3), 0.2)
image.stateless_random_contrast(f(4,5,3), 0.2, 0.5, [1, 2])|image.stateless_random_jpeg_quality(u(8,8,3), 50, 90, [1, 2])
image.sobel_edges(f(1,4,5,3))|signal.stft(f(16), 8, 4)|signal.inverse_stft(c(3,5), 8, 4)|signal.frame(f(8), 4, 2)
signal.overlap_and_add(f(3,4), 2)|signal.mdct(f(16), 4)|signal.dct(f(2,4), 2)|signal.rfft(f(2,4), [4])|signal.irfft(c(2,3), [4])
signal.fft2d(c(2,3))|signal.linear_to_mel_weight_matrix(4, 5, 8000)|random.stateless_uniform([2], [1, 2])
random.stateless_categorical(f(2,3), 2, [1, 2])|random.stateless_gamma([2], [1, 2], 1.5)|random.stateless_binomial([2], [1, 2], 3.0, 0.5)
random.stateless_poisson([2], [1, 2], 1.5)|random.categorical(f(2,3), 2, seed=1)|random.stateless_parameterized_truncated_normal([2], [1, 2])
random.uniform_candidate_sampler(i(2,1)+0, 1, 2, True, 5, seed=1)|random.shuffle(f(3,2), 1)|random.uniform([2, 3], 0, 5, tf.int32, 1)
random.experimental.index_shuffle(2, [1, 2, 3], 5)|random.gamma([2], f(3)**2, seed=1)|quantization.quantize(f(2,3), -1.0, 1.0, tf.qint8)
quantization.fake_quant_with_min_max_vars(f(3), -1.0, 1.0)|quantization.fake_quant_with_min_max_vars_per_channel(f(2,3), f(3)-3, f(3)+3)
quantization.quantize_and_dequantize_v2(f(3), -1.0, 1.0)|debugging.assert_shapes([(f(2,3), ('n', 3))])|debugging.assert_near(f(2), f(2))
debugging.assert_equal(f(2), f(2))|debugging.assert_type(f(2), tf.float32)|ensure_shape(f(2,3), [None, 3])|bitcast(f(2), tf.int32)
bitwise.left_shift(i(3), i(3))|custom_gradient(lambda x: (x, lambda d: d))(f(2))|sets.union([[1, 2]], [[2, 3]])
sets.size(tf.sparse.from_dense([[1, 2]]))|nest.map_structure(tf.negative, [f(2), f(3)])|nest.pack_sequence_as([1, [2]], [1, 2])
audio.encode_wav(f(4,1), 8000)|audio.decode_wav(tf.audio.encode_wav(f(4,1), 8000))|numpy_function(np.abs, [f(2)], tf.float32)
py_function(lambda x: x, [f(2)], tf.float32)|experimental.numpy.take(f(3), i(2))|experimental.numpy.linspace(0, 1, 3)
experimental.numpy.pad(f(2,2), [[1, 1], [0, 0]], 'constant')|experimental.numpy.where(b(3), f(3), 0)
"""
WRONG = (
    "None|'x'|1.5|-7|[]|{}|{'a': 1}|object()|len|f(2)|f(2,3)|i(3)|i()|s(2)|c(2)|b(2)|u(2,2)|f(1,2,2,3)|f(0)|[1, 'a']|[[1], [2, 3]]"
    "|tf.constant(2)|tf.constant(0.5)|tf.constant([1, 2], tf.int64)|True|2**40|float('nan')|b'y'|tf.float32|(1, 2)|[None]|tf.TensorShape([2])"
    "|np.float64(f(3))|np.int64(3)|tf.Variable(1.0)|rt()|sp()|range(3)|tf.constant('a')|f(2,2,2,2,2)|tf.half|complex(1, 2)"
)
