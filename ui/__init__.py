"""The pages. The only package that draws; it reads the planner's answers and words them."""
